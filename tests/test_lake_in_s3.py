"""A lake in an object store: that of fsspec in memory, and a server that speaks S3."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import traces

import traceql
from traceql.errors import LakeError
from traceql.runs.lake.add import add_run
from traceql.runs.lake.maintenance import check_lake, compact
from traceql.runs.lake.manifest import entries
from traceql.runs.lake.store import ObjectStore, store_at

pytest.importorskip("fsspec")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    kernels = [traces.kernel(ts=0, dur=5), traces.kernel(ts=10, dur=7)]
    trace = traces.write(tmp_path / "a.json", *kernels)
    return traceql.load(trace, tmp_path / "a.duckdb").database


def memory_url() -> str:
    return f"memory://{uuid4().hex}/lake"


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a server on this machine."""
    server_module = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    server = server_module.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "ENDPOINT_URL": f"http://{host}:{port}", "ACCESS_KEY_ID": "test",
        "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": "us-east-1",
        "CONFIG_FILE": str(tmp_path / "none"),
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    bucket = uuid4().hex  # servers of one process share what they have
    s3fs.S3FileSystem().mkdir(bucket)
    yield f"s3://{bucket}/lake"
    server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_a_lake_can_be_in_an_object_store(
    kind: str, database: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lake = memory_url() if kind == "memory" else request.getfixturevalue("s3")
    entry = add_run(database, lake).entry
    assert (entry.status, entry.error) == ("ok", None)
    assert not add_run(database, lake).is_new
    other = traces.write(tmp_path / "b.json", traces.kernel(ts=0, dur=3))
    add_run(other, lake)
    for _ in ("as added", "merged"):
        assert check_lake(lake).problems == ()
        with traceql.open_lake(lake) as opened:
            rows = opened.sql("SELECT run, SUM(dur) AS ns FROM kernel GROUP BY run ORDER BY run")
            assert [row["ns"] for row in rows] == [12_000, 3_000]
            with traceql.open(database) as own:
                answer = opened.run("kernels.top", where=f"run = '{entry.run}'").arrow()
                assert answer.drop_columns(["run"]).equals(own.run("kernels.top").arrow())
        assert compact(lake).before


@pytest.mark.slow
def test_what_no_run_names_stays_for_a_day(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without locks, another process may be about to name it."""
    memory = memory_url()
    add_run(database, memory)
    store = ObjectStore(memory)
    stray = "table=kernel/run=gone-12345678/x.parquet"
    store.put(database, stray)
    compact(memory)
    assert store.size(stray)
    assert check_lake(memory).problems == ()

    monkeypatch.setattr("traceql.runs.lake.store._SETTLED", timedelta())
    assert [one.name for one in check_lake(memory).problems] == [stray]
    compact(memory)
    assert store.size(stray) is None
    assert len(entries(store_at(memory))) == 1


def test_an_unknown_protocol_is_reported() -> None:
    with pytest.raises(LakeError, match=r"needs a package: pip install 'traceql\[s3\]'"):
        traceql.open_lake("nosuch://bucket/lake")
