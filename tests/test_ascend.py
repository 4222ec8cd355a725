"""Ascend profiles of other projects: numbers of an independent count in the JSON and CSV alone."""

import csv
import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import databases
import pytest
from command_line import called
from shared_files import shared_file

import traceql

SAMPLES = databases.ROOT.parent / "shared" / "profilers" / "ascend"
ALEXNET, OLD = "alexnet-910b-level1-text", "old-2024-01-trace-view"
DUMP, CSV_ONLY = "aclgraph-dump/graph_debug.json", "qwen3-0.6b-train-pp2dp2-csv"
COMPUTE = {"AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV", "AI_CPU", "DSA_SQE"}
# Overlap Analysis of each rank as the profiler has it, ns: computing, communication, the part of it
# that is not overlapped, and free.
OVERLAP = {
    0: (8_873_756, 105_991_878, 101_963_203, 25_744_050),
    1: (8_878_295, 100_375_286, 96_359_047, 26_675_274),
}
pytestmark = pytest.mark.slow


def sample(name: str) -> Path:
    if not (SAMPLES / name).exists():
        pytest.skip(f"no profile {name}")
    return SAMPLES / name


def loaded(name: str) -> traceql.Trace:
    path = sample(name)
    return traceql.Trace(
        shared_file(f"ascend-{name}.duckdb", lambda made: traceql.load(path, made))
    )


def output(rank: int) -> Path:
    return sample(ALEXNET) / f"rank{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"


@cache
def events(file: Path) -> list[dict[str, Any]]:
    """The events of a file; each has the names of its process and thread."""
    found: list[dict[str, Any]] = json.loads(
        gzip.decompress(file.read_bytes()), parse_float=Decimal
    )
    names = {
        (e["name"], e["pid"], e["tid"] if e["name"] == "thread_name" else None): e["args"]["name"]
        for e in found
        if e["ph"] == "M" and e["name"] in ("process_name", "thread_name")
    }
    for event in found:
        event["process"] = names.get(("process_name", event["pid"], None))
        event["thread"] = names.get(("thread_name", event["pid"], event.get("tid")))
    return found


def alexnet(rank: int) -> list[dict[str, Any]]:
    return events(output(rank) / "trace_view.json.gz")


def ns(number: Any) -> int:
    return round(Decimal(str(number)) * 1000)


def span(event: dict[str, Any]) -> tuple[int, int]:
    start = ns(event["ts"])
    return start, start + ns(event["dur"])


def union_ns(intervals: list[tuple[int, int]]) -> int:
    """How long at least one of the intervals lasted, counted one by one."""
    total, covered_to = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, covered_to))
        covered_to = max(covered_to, end)
    return total


def complete(found: list[dict[str, Any]], process: str) -> list[dict[str, Any]]:
    return [e for e in found if e["ph"] == "X" and e["process"] == process]


@pytest.mark.parametrize("name", [ALEXNET, OLD])
def test_nothing_is_lost(name: str) -> None:
    with loaded(name) as trace:
        assert trace.sql("SELECT * FROM ledger WHERE ok IS FALSE").rows() == []
        assert trace.sql("SELECT 1 FROM ledger WHERE ok AND check_name = 'counters'").rows() or (
            name == OLD
        )


@pytest.mark.parametrize("rank", [0, 1])
def test_events_of_each_track_are_those_of_the_file(rank: int) -> None:
    expected: Counter[str] = Counter(e["process"] for e in alexnet(rank) if e["ph"] == "X")
    durations: defaultdict[str, int] = defaultdict(int)
    for event in alexnet(rank):
        if event["ph"] == "X":
            durations[event["process"]] += ns(event["dur"])
    with loaded(ALEXNET) as trace:
        rows = trace.sql(
            """
            SELECT process_name, COUNT(*) AS events, CAST(SUM(dur) AS BIGINT) AS dur
            FROM slice
            JOIN track ON track_id = track.id
            WHERE slice.rank = $rank
            GROUP BY process_name
            """,
            {"rank": rank},
        ).rows()
    assert {r["process_name"]: (r["events"], r["dur"]) for r in rows} == {
        name: (n, durations[name]) for name, n in expected.items()
    }


@pytest.mark.parametrize("rank", [0, 1])
def test_kernels_are_compute_tasks_copies_and_whole_operations(rank: int) -> None:
    hardware = complete(alexnet(rank), "Ascend Hardware")
    expected = {
        "kernel": [span(e) for e in hardware if e["args"]["Task Type"] in COMPUTE],
        "memcpy": [span(e) for e in hardware if e["name"] == "MEMCPY_ASYNC"],
        "collective": [
            span(e) for e in complete(alexnet(rank), "HCCL") if e["thread"].startswith("Group")
        ],
    }
    assert [len(found) for found in expected.values()] == [187, 24, 4]
    with loaded(ALEXNET) as trace:
        rows = trace.select(
            """
            SELECT
                CASE category WHEN 'collective' THEN category ELSE kind END AS what,
                ts + base_time_ns - clock.offset_ns AS ts,
                dur
            FROM kernel
            JOIN trace USING (rank)
            JOIN clock USING (rank)
            WHERE rank = $rank
            """,
            {"rank": rank},
        ).rows()
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        found[row["what"]].append((row["ts"], row["ts"] + row["dur"]))
    assert {what: sorted(spans) for what, spans in found.items()} == {
        what: sorted(spans) for what, spans in expected.items()
    }


def test_categories_are_by_type() -> None:
    types = Counter(r["Type"] for r in csv.DictReader((output(0) / "kernel_details.csv").open()))
    with loaded(ALEXNET) as trace:
        rows = trace.sql("""
            SELECT slice.args ->> 'Type' AS type, category, COUNT(*) AS n
            FROM kernel
            JOIN slice USING (id)
            WHERE kernel.rank = 0 AND kernel.kind = 'kernel'
            GROUP BY ALL
        """).rows()
    assert Counter({r["type"]: r["n"] for r in rows}) == types
    category = {r["type"]: r["category"] for r in rows}
    of_gemm = {"MatMulV2", "MatMulV3", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"}
    assert {t for t, c in category.items() if c == "gemm"} == of_gemm
    assert {t for t, c in category.items() if c == "activation"} == {"Relu", "ReluGrad"}
    assert {t for t, c in category.items() if c == "collective"} == {"hcom_allReduce_"}
    assert "other" not in category.values()


@pytest.mark.parametrize("rank", OVERLAP)
def test_overlap_analysis(rank: int) -> None:
    """Its own sums to the nanosecond; anew to 1 ns an interval: starts are cut to whole ns."""
    names = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
    with loaded(ALEXNET) as trace:
        rows = trace.sql(
            """
            SELECT check_name, value, total
            FROM ledger
            WHERE rank = $rank AND check_name LIKE 'overlap analysis: %' AND ok
            """,
            {"rank": rank},
        ).rows()
    found = {r["check_name"].removeprefix("overlap analysis: "): r for r in rows}
    assert tuple(found[name]["total"] for name in names) == OVERLAP[rank]
    hardware = complete(alexnet(rank), "Ascend Hardware")
    compute = [span(e) for e in hardware if e["args"]["Task Type"] in COMPUTE]
    comm = [span(e) for e in complete(alexnet(rank), "HCCL") if e["thread"].startswith("Group")]
    both = [*compute, *comm]
    window = max(end for _, end in both) - min(start for start, _ in both)
    expected = (
        union_ns(compute),
        union_ns(comm),
        union_ns(both) - union_ns(compute),
        window - union_ns(both),
    )
    assert tuple(found[name]["value"] for name in names) == expected
    assert all(abs(a - b) < 50 for a, b in zip(expected, OVERLAP[rank], strict=True))


@pytest.mark.parametrize(
    ("rank", "place", "waited_us", "whole_us", "moved_us"),
    [(0, 0, 78_765, 79_090, 275), (1, 0, 73_150, 73_475, 276), (0, 3, 21_980, 22_219, 188)],
)
def test_one_rank_names_the_late_peer(
    rank: int, place: int, waited_us: int, whole_us: int, moved_us: int
) -> None:
    with loaded(ALEXNET) as trace:
        rows = trace.select(
            """
            SELECT collective.*, peer_ns, dur
            FROM collective
            JOIN operation_plane USING (kernel_id)
            JOIN kernel ON kernel_id = kernel.id
            WHERE collective.rank = $rank
            ORDER BY kernel.ts
            """,
            {"rank": rank},
        ).rows()
    row = rows[place]
    assert (row["late_place"], row["wait_source"], row["group_size"]) == (5, "planes", 8)
    assert row["wait_ns"] + row["transfer_ns"] == row["dur"]
    found = (row["peer_ns"], row["dur"], row["transfer_ns"])
    assert tuple(round(value / 1000) for value in found) == (waited_us, whole_us, moved_us)


def test_lost_time_blames_the_late_peer_that_the_devices_name() -> None:
    with loaded(ALEXNET) as trace:
        waits = [row for row in trace.run("time.lost").rows() if row["wait_ns"]]
        exposed = trace.run("time.breakdown").rows()
    (wait,) = waits
    # The job does not say how many ranks it has, so that a place in the communicator is no rank.
    assert (wait["cause"], wait["late_place"], wait["rank"]) == ("peer", 5, None)
    assert wait["wait_ns"] == sum(row["exposed_wait_ns"] for row in exposed)


def test_host_time_is_that_of_the_threads_whose_operators_ask_for_work() -> None:
    """One for forward, one for backward; the queue of torch_npu launches what both ask for."""
    with loaded(ALEXNET) as trace:
        flame = trace.run("host.flame", rank=0, min_pct=0).rows()
    threads = {row["name"] for row in flame if row["depth"] == 0}
    operators = {e["tid"] for e in complete(alexnet(0), "Python") if e.get("cat") == "cpu_op"}
    assert threads == {f"rank 0, Thread {tid}" for tid in operators}
    assert not [row for row in flame if row["kind"] == "runtime"]


def test_calls_and_tasks_are_joined_by_their_connection() -> None:
    tasks = [
        e["args"]["connection_id"]
        for e in complete(alexnet(0), "Ascend Hardware")
        if e["args"]["Task Type"] in COMPUTE or e["name"] == "MEMCPY_ASYNC"
    ]
    calls = {e["args"]["connection_id"]: span(e)[0] for e in complete(alexnet(0), "CANN")}
    with loaded(ALEXNET) as trace:
        rows = trace.sql("""
            SELECT slice.correlation, launch.ts + base_time_ns AS ts
            FROM kernel
            JOIN slice USING (id)
            JOIN launch ON kernel.launch_id = launch.id
            JOIN trace ON kernel.rank = trace.rank
            WHERE kernel.rank = 0 AND kernel.category <> 'collective'
        """).rows()
    assert sorted(r["correlation"] for r in rows) == sorted(tasks)
    assert all(calls[r["correlation"]] == r["ts"] for r in rows)


def test_counters_are_the_samples_of_the_files() -> None:
    samples = [e for e in alexnet(0) if e["ph"] == "C"]
    memory = list(csv.DictReader((output(0) / "memory_record.csv").open()))
    with loaded(ALEXNET) as trace:
        rows = trace.sql("""
            SELECT name, unit, COUNT(*) AS n, MAX(value) AS most
            FROM counter
            WHERE rank = 0
            GROUP BY ALL
        """).rows()
    found = {(r["name"], r["unit"]): (r["n"], r["most"]) for r in rows}
    assert found["AI Core Freq", "MHz"] == (2, 1800)
    reads = [float(e["args"]["Read(MB/s)"]) for e in samples if e["name"] == "HBM 0/Read"]
    assert found["HBM 0/Read", "MB/s"] == (len(reads), max(reads))
    column = "Total Reserved(MB)"
    reserved = [float(r[column]) for r in memory if r["Component"] == "APP" and r[column]]
    assert found["memory_record.csv APP Total Reserved", "MB"] == (len(reserved), max(reserved))
    assert found["step_trace_time.csv Computing", "us"][1] == pytest.approx(8873.756)


def test_the_oldest_file_has_steps_and_launching_operators_without_connections() -> None:
    found = events(sample(OLD) / "trace_view.json.gz")
    hardware = complete(found, "Ascend Hardware")
    with loaded(OLD) as trace:
        (row,) = trace.sql("""
            SELECT
                COUNT(*) AS n,
                COUNT(*) FILTER (kind = 'memcpy') AS copies,
                COUNT(step_id) AS known
            FROM kernel
        """).rows()
        operators = trace.run("ops.top", limit=0).rows()
    copies = sum(e["name"] == "MEMCPY_ASYNC" for e in hardware)
    ends = sum(e["ph"] == "f" and e.get("cat") == "async_npu" for e in found)
    assert (row["n"], row["copies"]) == (len(hardware), copies)
    assert row["known"] == ends
    assert "aten::addmm" in {r["name"] for r in operators}


def test_the_raw_trace_opens_with_names_of_the_profile() -> None:
    with loaded(ALEXNET) as trace, trace.perfetto(1) as tp:
        rows = tp.query("SELECT category, COUNT(*) AS n FROM slice GROUP BY category")
        found = {row.category: row.n for row in rows}
    assert (found["kernel"], found["communication"], found["gpu_memcpy"]) == (187, 4, 24)


@pytest.mark.parametrize("name", [DUMP, CSV_ONLY])
def test_what_is_no_trace_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    done = called("load", sample(name), "-o", tmp_path / "run.duckdb")
    err = done.stderr.decode()
    assert (done.returncode, err.count("\n"), list(tmp_path.iterdir())) == (1, 1, [])
    assert ("invented" if name == DUMP else "trace_view.json") in err
