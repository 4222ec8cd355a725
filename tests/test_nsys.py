"""Exports of other people's programs: numbers counted by SQLite alone, ledger, ranks, secrets."""

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import databases
import nsys_like
import pytest
from command_line import called
from nsys_like import Row, call, global_id, kernel, nvtx
from nsys_samples import content, in_memory
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as PerfettoTrace
from shared_files import shared_file

import traceql
from traceql.sql.registry import definitions

SAMPLES = databases.ROOT.parent / "shared" / "profilers" / "nsys"
_RANKS = "h100-2gpu-1s.sqlite"
_TINY = "torch-tiny-2026.1.sqlite"
_OWN_KERNEL = "saxpy-mpi-2022.2.sqlite.gz"
# Kernels, and the time in which one ran at least, ns, by process and device: what the projects that
# published the samples state, to which the second count below agrees.
KERNELS = {
    _RANKS: {(111, 0): (1721, 22_385_000), (112, 1): (1721, 22_444_000)},
    _TINY: {(91186, 0): (2, 4_000)},
    "power-iteration-nvtx-2025.3.sqlite.gz": {(9946, 0): (3689, 1_131_743_000)},
    _OWN_KERNEL: {(1230493, 0): (5, 88_573_000)},
}
SECRET = b"TRACEQL_CANARY"  # in the environment of the recorded programs, which exports repeat


def samples() -> list[Any]:
    """The samples as parameters: one is quick."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=() if name == _TINY else slow) for name in KERNELS]


def sample(name: str) -> Path:
    if not (SAMPLES / name).is_file():
        pytest.skip(f"no export {name}")
    return SAMPLES / name


def loaded(name: str) -> traceql.Trace:
    path = sample(name)
    return traceql.Trace(shared_file(f"{name}.duckdb", lambda made: traceql.load(path, made)))


@contextmanager
def read_by_sqlite(name: str) -> Iterator[sqlite3.Connection]:
    with in_memory(sample(name)) as con:
        con.text_factory = bytes
        yield con


def union_ns(intervals: list[tuple[int, int]]) -> int:
    """How long at least one of the intervals lasted, counted one by one."""
    total, covered_to = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, covered_to))
        covered_to = max(covered_to, end)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", samples())
def test_kernels_of_each_gpu_are_those_that_sqlite_counts(name: str) -> None:
    intervals: dict[tuple[int, int], list[tuple[int, int]]] = {}
    with read_by_sqlite(name) as con:
        sql = 'SELECT globalPid / 16777216 % 16777216, deviceId, start, "end" FROM '
        for pid, device, start, end in con.execute(sql + nsys_like.KERNEL):
            intervals.setdefault((pid, device), []).append((start, end))
    counted = {gpu: (len(found), union_ns(found)) for gpu, found in intervals.items()}
    assert {gpu: (n, round(ns, -3)) for gpu, (n, ns) in counted.items()} == KERNELS[name]
    rows = loaded(name).sql("""
        SELECT CAST(metadata ->> 'process' AS BIGINT) AS pid, device, ts, kernel.ts + dur AS end_ts
        FROM kernel
        JOIN trace USING (rank)
        WHERE kind = 'kernel'
    """)
    found_in: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in rows.rows():
        found_in.setdefault((row["pid"], row["device"]), []).append((row["ts"], row["end_ts"]))
    assert {gpu: (len(found), union_ns(found)) for gpu, found in found_in.items()} == counted


@pytest.mark.parametrize("name", samples())
def test_nothing_is_lost_and_only_a_programs_own_kernel_has_no_class(name: str) -> None:
    with loaded(name) as trace:
        failed = trace.sql("SELECT check_name, value FROM ledger WHERE ok IS FALSE").rows()
        (own,) = trace.sql("SELECT SUM(dur) AS dur FROM kernel WHERE name LIKE '%saxpy%'").rows()
        assert trace.sql("SELECT 1 FROM ledger WHERE ok AND check_name = 'events kernel'").rows()
    expected = {"check_name": "time classified other", "value": own["dur"]}
    assert failed == ([expected] if name == _OWN_KERNEL else [])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KERNELS if name != _RANKS])
def test_the_environment_of_the_recorded_program_appears_nowhere(name: str, tmp_path: Path) -> None:
    assert SECRET in content(sample(name))
    nothing_shows_it(sample(name), tmp_path)


@pytest.mark.slow
def test_texts_that_repeat_the_environment_appear_nowhere(tmp_path: Path) -> None:
    told = f"HF_TOKEN=two words\n{SECRET.decode()}"
    export = nsys_like.write(
        tmp_path / "in" / "run.sqlite",
        *_RUN,
        Row("StringIds", {"id": 999, "value": f"PATH=/bin\0{told}"}),
        Row("META_DATA_CAPTURE", {"name": "LAUNCH:ENVIRONMENT_VARIABLE", "value": told}),
        Row("META_DATA_CAPTURE", {"name": "CUDA_GRAPH_TRACE_OPTIONS:MODE", "value": told}),
        Row("META_DATA_EXPORT", {"name": "EXPORT_INPUT", "value": told}),
        *(
            Row("DIAGNOSTIC_EVENT", {"severity": severity, "text": f"{text} {told}"})
            for severity in (1, 2, 3)
            for text in ("cannot start", "A=1 B='x y")
        ),
        Row("PROCESSES", {"globalPid": global_id(201), "pid": 201, "name": f"env {told} python"}),
        Row("ThreadNames", {"nameId": f"main {told}", "globalTid": global_id(201, 201)}),
    )
    options = {
        f"EXPORT_{name}": told
        for name in ("PRODUCT_VERSION", "SCHEMA_VERSION", "PARAM_TIME_NORMALIZE")
    }
    with closing(sqlite3.connect(export)) as con, con:
        con.executemany(
            "UPDATE META_DATA_EXPORT SET value = ? WHERE name = ?",
            [(value, name) for name, value in options.items()],
        )
    (tmp_path / "out").mkdir()
    nothing_shows_it(export, tmp_path / "out")


def nothing_shows_it(export: Path, folder: Path) -> None:
    """Loads an export and shows and exports what was loaded, without its secret."""
    database, file, page = (folder / f"run.{kind}" for kind in ("duckdb", "pftrace", "html"))
    done = [
        called("load", export, "-o", database),
        called("info", database),
        called("info", "--format", "json", database),
        called("export", "perfetto", database, "-o", file),
        called("report", database, "-o", page),
    ]
    assert [one.returncode for one in done] == [0] * len(done)
    assert not any(SECRET in one.stdout + one.stderr for one in done)
    assert sorted(folder.iterdir()) == sorted([database, file, page])
    assert SECRET not in database.read_bytes() + page.read_bytes()
    exported = b"".join(packets(file))
    assert SECRET not in exported
    # Text in the database may be compressed, so its bytes alone prove little.
    with traceql.open(database) as trace:
        for table in (name for name, one in definitions().items() if one.kind.is_kept):
            sql = f"SELECT COUNT(*) AS n FROM {table} AS t WHERE CAST(t AS VARCHAR) LIKE $secret"
            rows = trace.select(sql, {"secret": f"%{SECRET.decode()}%"}).rows()
            assert rows == [{"n": 0}], table
        # The same searches find what is there.
        name = trace.sql("SELECT MIN(name) AS name FROM kernel WHERE kind = 'kernel'").rows()
        sql = "SELECT COUNT(*) AS n FROM slice AS t WHERE CAST(t AS VARCHAR) LIKE $name"
        assert trace.select(sql, {"name": f"%{name[0]['name']}%"}).rows()[0]["n"] > 0
        assert name[0]["name"].encode() in exported


def packets(file: Path) -> Iterator[bytes]:
    """The packets of a Perfetto trace, unpacked."""
    found = PerfettoTrace.FromString(file.read_bytes())
    for packet in found.packet:
        if packet.HasField("compressed_packets"):
            yield zlib.decompress(packet.compressed_packets)
        else:
            yield packet.SerializeToString()


_RUN = (
    call(ts=10, dur=2, correlation=7, pid=201),
    nvtx("forward", ts=5, dur=20, pid=201),
    kernel("gemm", ts=20, dur=5, correlation=7, pid=201),
    call("cudaGraphLaunch_v10000", ts=11, dur=3, correlation=7, pid=202),
    kernel("softmax", ts=30, dur=6, correlation=7, pid=202, deviceId=1),
    nvtx("backward", ts=2, dur=30, pid=202),
    Row("PROCESSES", {"globalPid": global_id(201), "pid": 201, "name": "worker A"}),
    Row("PROCESSES", {"globalPid": global_id(202), "pid": 202, "name": "worker B"}),
)
_SLICES = "SELECT ts, dur, name, category FROM slice"


@pytest.mark.slow
def test_perfetto_sees_the_slices_of_each_rank_at_the_same_times(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    traceql.load(nsys_like.write(tmp_path / "run.sqlite", *_RUN), database)
    expected = {
        0: [(0 + 3, 20, "forward"), (5 + 3, 2, "cudaLaunchKernel"), (15 + 3, 5, "gemm")],
        1: [(0, 30, "backward"), (9, 3, "cudaGraphLaunch"), (28, 6, "softmax")],
    }
    with traceql.open(database) as trace:
        for rank, slices in expected.items():
            with trace.perfetto(rank=rank) as tp:
                assert sorted((row.ts, row.dur, row.name) for row in tp.query(_SLICES)) == slices
                processes = tp.query("SELECT name FROM process WHERE name LIKE 'worker%'")
                assert [row.name for row in processes] == [f"worker {'AB'[rank]}"]
        with trace.perfetto() as tp:
            assert next(row.name for row in tp.query(f"{_SLICES} ORDER BY ts")) == "forward"
        with pytest.raises(traceql.TraceqlError, match="has no rank 5"):
            trace.perfetto(rank=5)
