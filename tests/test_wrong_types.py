"""Every value of run.json and metrics.json replaced by values of other types, one at a time.

Either the load is refused in one line, or no table and no query fails.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import traces
from derived import make_every_table
from recorded_runs import run_directory
from small_runs import all_reduce

import traceql
from traceql.derive.execute import drop_derived, make_tables
from traceql.errors import TraceCorrupt
from traceql.loading.run_directory import run_directories

ROOT = Path(__file__).resolve().parents[1]
Place = tuple[str | int, ...]

ODD: tuple[str, ...] = (
    *("null", "true", "-1", "1.5", "1e999", "NaN", '"x"', '""', "[]", "{}", "[[]]", "[null]"),
    *(str(2**31 - 1), str(2**62), str(2**63 - 1), str(-(2**63)), str(2**70)),
    *('"\\u0000"', '"\\tGPU0\\nGPU9223372036854775807\\t X "', '{"a": 5}', '[{"a": 5}]'),
)
_HERE = "@"
_ABOUT_LINKS = ("gpus", "topology", "host", "network_adapters", "ranks")
_FACTS: dict[str, Any] = {
    "reason": None, "start": "2026-01-02T03:04:05+00:00", "eager": False, "annotation": "layers",
    "versions": {"vllm": "0.25.0", "torch": "2.11.0"}, "host": {"name": "h"},
    "gpus": [{"index": n, "uuid": f"GPU-{n}", "name": "NVIDIA H200"} for n in (0, 1)],
    "topology": "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X ",
    "network_adapters": [{"link_layer": "InfiniBand", "rate": "400 Gb/sec (4X NDR)"}],
    "overhead": {"profiled_ns": 3_000, "unprofiled_ns": 2_000, "overhead_pct": 50.0},
    "model_config": {"model_type": "qwen3", "num_hidden_layers": 4, "hidden_size": 64},
}  # fmt: skip


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all values in a document; of a list, those in its first two."""
    yield place
    keys: Any = value if isinstance(value, dict) else ()
    if isinstance(value, list):
        keys = range(min(2, len(value)))
    for key in keys:
        yield from places(value[key], (*place, key))


def replaced(value: Any, place: Place) -> Any:
    if not place:
        return _HERE
    copy = value.copy()
    copy[place[0]] = replaced(value[place[0]], place[1:])
    return copy


def variants(file: Path) -> Iterator[str]:
    document = json.loads(file.read_text())
    for place in places(document):
        text = json.dumps(replaced(document, place))
        yield from (text.replace(f'"{_HERE}"', odd) for odd in ODD)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks that communicate, on GPUs that run.json describes."""
    run = run_directory(tmp_path_factory.mktemp("odd") / "run")
    for rank in (0, 1):
        traces.write(
            run / "traces" / f"rank{rank}.pt.trace.json",
            traces.step(ts=0, dur=30, context=(1, 8)),
            all_reduce(ts=5, dur=10, ranks=[0, 1]),
            baseTimeNanoseconds=1_000_000_000,
            deviceProperties=[{"id": 0, "name": "NVIDIA H200"}],
            distributedInfo={"rank": rank, "world_size": 2},
        )
    document = json.loads((run / "run.json").read_text()) | _FACTS
    for rank in document["ranks"]:
        rank |= {"pp_rank": 0, "ep_rank": rank["rank"], "host": "h"}
    (run / "run.json").write_text(json.dumps(document))
    return run


@pytest.fixture(scope="module")
def documents(run: Path) -> list[str]:
    """The variants of run.json that a load accepts; it refuses the others in one line."""
    trace, file, accepted = run / "traces" / "rank0.pt.trace.json", run / "run.json", []
    before, refused = file.read_text(), []
    for text in variants(file):
        file.write_text(text)
        try:
            if run_directories([trace]):
                accepted.append(text)
        except TraceCorrupt as error:
            refused.append(str(error))
    file.write_text(before)
    assert all(str(file) in line and "\n" not in line for line in refused)
    return accepted


@pytest.fixture(scope="module")
def database(run: Path, documents: list[str]) -> Path:
    """A database in which each variant is a run of its own, as if all had been loaded."""
    database = traceql.load(run, run.with_name("odd.duckdb")).database
    metrics = list(variants(run / "metrics.json"))
    with duckdb.connect(str(database)) as con:
        con.execute("SET search_path = 'main,internal,reference'")
        drop_derived(con)
        ((document, measured),) = con.execute("SELECT document, metrics FROM run_file").fetchall()
        rows = [(text, measured) for text in documents] + [(document, text) for text in metrics]
        con.executemany(
            "INSERT INTO run_file VALUES (?, ?, ?)",
            [(str(n), text, measured) for n, (text, measured) in enumerate(rows)],
        )
        con.execute("""
            INSERT INTO telemetry_sample
            SELECT run_file.path, sample.* EXCLUDE (run)
            FROM run_file CROSS JOIN telemetry_sample AS sample
        """)
        make_every_table(con)
    return database


@pytest.mark.slow
def test_no_query_fails_on_values_of_wrong_types(database: Path) -> None:
    with traceql.open(database) as trace:
        for query in sorted(file.stem for file in (ROOT / "queries").glob("*.sql")):
            trace.run(query).rows()
        assert len(trace.sql("FROM run").rows()) > 1000


_COLUMNS: dict[str, tuple[type, tuple[str, ...]]] = {
    **{name: (str, (name,)) for name in ("kind", "status", "reason", "model", "start")},
    **{name: (int, ("parallel", name)) for name in ("tp", "pp", "dp", "world_size")},
    "ep": (bool, ("parallel", "ep")),
    "eager": (bool, ("eager",)),
    "annotation": (str, ("annotation",)),
    "vllm_version": (str, ("versions", "vllm")),
    "torch_version": (str, ("versions", "torch")),
    "iterations": (int, ("window", "iterations")),
    "profiled_ns": (int, ("overhead", "profiled_ns")),
    "unprofiled_ns": (int, ("overhead", "unprofiled_ns")),
    "overhead_pct": (float, ("overhead", "overhead_pct")),
}


def stated(document: Any, type_: type, keys: tuple[str, ...]) -> Any:
    """The value at these keys; None if it is not of this type or has too many digits."""
    value = document
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if type_ is float and type(value) in (int, float):
        return float(value) if math.isfinite(value) else None
    if type(value) is not type_ or (isinstance(value, int) and abs(value) >= 2**62):
        return None
    return value


@pytest.mark.slow
def test_a_fact_is_what_run_json_states_or_unknown(database: Path) -> None:
    with duckdb.connect(str(database), read_only=True) as con:
        found = con.execute(f"SELECT document, {', '.join(_COLUMNS)} FROM run").fetchall()
    for text, *facts in found:
        document = json.loads(text)
        assert facts == [stated(document, *column) for column in _COLUMNS.values()], text


def on_two_hosts(document: Any) -> bool:
    """Whether run.json names the hosts of both ranks, and they differ."""
    hosts = [rank.get("host") for rank in document["ranks"] or []]
    return len({host for host in hosts if isinstance(host, str)}) == 2


@pytest.mark.slow
def test_no_link_is_an_error_of_wrong_types(
    run: Path, documents: list[str], tmp_path: Path
) -> None:
    """One after the other, because a rank is in one run only; every other one of them, since each
    value then still takes the place of every other one.
    """
    database = traceql.load(run, tmp_path / "run.duckdb").database
    recorded = json.loads((run / "run.json").read_text())
    changed = [
        text
        for text in documents
        if any(json.loads(text).get(key) != recorded[key] for key in _ABOUT_LINKS)
    ]
    with duckdb.connect(str(database)) as con:
        con.execute("SET search_path = 'main,internal,reference'")
        make_tables(con, ["group_link"])
        for text in changed[::2]:
            document = json.loads(text)
            con.execute("UPDATE run_file SET document = ?", [text])
            con.execute("DROP TABLE group_link")
            make_tables(con, ["group_link"])
            ((link,),) = con.execute("SELECT link FROM group_link").fetchall()
            assert (link == "InfiniBand NDR") <= on_two_hosts(document), text
            assert link in ("NVLink 4", "PCIe 5.0 x16", "InfiniBand NDR", None), text
