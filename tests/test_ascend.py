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
from ascend_like import values
from command_line import refusal
from shared_files import shared_file
from unions import length, union

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
    made = shared_file(f"ascend-{name}.duckdb", lambda made: traceql.load(path, made))
    return traceql.Trace(made)


def output(rank: int) -> Path:
    return sample(ALEXNET) / f"rank{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"


@cache
def events(file: Path) -> list[dict[str, Any]]:
    """The events of a file; each has the names of its process and thread."""
    text = gzip.decompress(file.read_bytes())
    found: list[dict[str, Any]] = json.loads(text, parse_float=Decimal)
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


def complete(found: list[dict[str, Any]], process: str) -> list[dict[str, Any]]:
    return [e for e in found if e["ph"] == "X" and e["process"] == process]


@pytest.mark.parametrize("name", [ALEXNET, OLD])
def test_nothing_is_lost(name: str) -> None:
    with loaded(name) as trace:
        assert values(trace, "SELECT * FROM ledger WHERE ok IS FALSE") == []
        counted = values(trace, "SELECT 1 FROM ledger WHERE ok AND check_name = 'counters'")
    assert counted or name == OLD


@pytest.mark.parametrize("rank", [0, 1])
def test_events_of_each_track_are_those_of_the_file(rank: int) -> None:
    expected: defaultdict[str, list[int]] = defaultdict(list)
    for event in alexnet(rank):
        if event["ph"] == "X":
            expected[event["process"]].append(ns(event["dur"]))
    sql = f"""
        SELECT process_name, COUNT(*), CAST(SUM(dur) AS BIGINT)
        FROM slice JOIN track ON track_id = track.id WHERE slice.rank = {rank} GROUP BY process_name
    """
    with loaded(ALEXNET) as trace:
        found = sorted(values(trace, sql))
    assert found == sorted((name, len(durs), sum(durs)) for name, durs in expected.items())


@pytest.mark.parametrize("rank", [0, 1])
def test_kernels_are_compute_tasks_copies_and_whole_operations(rank: int) -> None:
    hardware, of_hccl = (complete(alexnet(rank), name) for name in ("Ascend Hardware", "HCCL"))
    expected = {
        "kernel": [span(e) for e in hardware if e["args"]["Task Type"] in COMPUTE],
        "memcpy": [span(e) for e in hardware if e["name"] == "MEMCPY_ASYNC"],
        "collective": [span(e) for e in of_hccl if e["thread"].startswith("Group")],
    }
    assert [len(found) for found in expected.values()] == [187, 24, 4]
    sql = f"""
        SELECT IF(category = 'collective', category, kind), ts + base_time_ns - clock.offset_ns, dur
        FROM kernel JOIN trace USING (rank) JOIN clock USING (rank) WHERE rank = {rank}
    """
    with loaded(ALEXNET) as trace:
        found = sorted((what, (ts, ts + dur)) for what, ts, dur in values(trace, sql))
    assert found == sorted((what, span) for what, spans in expected.items() for span in spans)


def test_categories_are_by_type() -> None:
    types = Counter(r["Type"] for r in csv.DictReader((output(0) / "kernel_details.csv").open()))
    sql = """
        SELECT slice.args ->> 'Type', category, COUNT(*)
        FROM kernel JOIN slice USING (id) WHERE kernel.rank = 0 AND kernel.kind = 'kernel'
        GROUP BY ALL
    """
    with loaded(ALEXNET) as trace:
        rows = values(trace, sql)
    assert Counter({type_: n for type_, _, n in rows}) == types
    of_category = defaultdict(set)
    for type_, category, _ in rows:
        of_category[category].add(type_)
    of_gemm = {"MatMulV2", "MatMulV3", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"}
    assert of_category["gemm"] == of_gemm
    assert of_category["activation"] == {"Relu", "ReluGrad"}
    assert of_category["collective"] == {"hcom_allReduce_"}
    assert "other" not in of_category


@pytest.mark.parametrize("rank", OVERLAP)
def test_overlap_analysis(rank: int) -> None:
    """Its own sums to the nanosecond; again to 1 ns an interval: starts are cut to whole ns."""
    sql = f"""
        SELECT check_name, value, total FROM ledger
        WHERE rank = {rank} AND check_name LIKE 'overlap analysis: %' AND ok
    """
    with loaded(ALEXNET) as trace:
        found = {name.removeprefix("overlap analysis: "): ns for name, *ns in values(trace, sql)}
    names = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
    own, analysed = zip(*(found[name] for name in names), strict=True)
    assert analysed == OVERLAP[rank]
    hardware, of_hccl = (complete(alexnet(rank), name) for name in ("Ascend Hardware", "HCCL"))
    compute = [span(e) for e in hardware if e["args"]["Task Type"] in COMPUTE]
    comm = [span(e) for e in of_hccl if e["thread"].startswith("Group")]
    both = [*compute, *comm]
    window = max(end for _, end in both) - min(start for start, _ in both)
    compute_ns, comm_ns, any_ns = (length(union(spans)) for spans in (compute, comm, both))
    expected = (compute_ns, comm_ns, any_ns - compute_ns, window - any_ns)
    assert own == expected
    assert all(abs(a - b) < 50 for a, b in zip(expected, OVERLAP[rank], strict=True))


@pytest.mark.parametrize(
    ("rank", "place", "expected_us"),
    [(0, 0, (78_765, 79_090, 275)), (1, 0, (73_150, 73_475, 276)), (0, 3, (21_980, 22_219, 188))],
)
def test_one_rank_names_the_late_peer(
    rank: int, place: int, expected_us: tuple[int, int, int]
) -> None:
    sql = f"""
        SELECT
            collective.late_place, wait_source, group_size, collective.wait_ns, peer_ns, dur,
            transfer_ns
        FROM collective JOIN operation_plane USING (kernel_id) JOIN kernel ON kernel_id = kernel.id
        WHERE collective.rank = {rank} ORDER BY kernel.ts
    """
    with loaded(ALEXNET) as trace:
        *about, wait_ns, peer_ns, dur, transfer_ns = values(trace, sql)[place]
    assert about == [5, "planes", 8]
    assert wait_ns + transfer_ns == dur
    assert tuple(round(ns / 1000) for ns in (peer_ns, dur, transfer_ns)) == expected_us


def test_lost_time_blames_the_late_peer_that_the_devices_name() -> None:
    with loaded(ALEXNET) as trace:
        (wait,) = [row for row in trace.run("time.lost").rows() if row["wait_ns"]]
        exposed = trace.run("time.breakdown").rows()
    # The job does not say how many ranks it has, so that a place in the communicator is no rank.
    assert (wait["cause"], wait["late_place"], wait["rank"]) == ("peer", 5, None)
    assert wait["wait_ns"] == sum(row["exposed_wait_ns"] for row in exposed)


def test_calls_and_tasks_are_joined_by_their_connection() -> None:
    tasks = [
        e["args"]["connection_id"]
        for e in complete(alexnet(0), "Ascend Hardware")
        if e["args"]["Task Type"] in COMPUTE or e["name"] == "MEMCPY_ASYNC"
    ]
    calls = {e["args"]["connection_id"]: span(e)[0] for e in complete(alexnet(0), "CANN")}
    sql = """
        SELECT slice.correlation, launch.ts + base_time_ns
        FROM kernel JOIN slice USING (id) JOIN launch ON kernel.launch_id = launch.id
        JOIN trace ON kernel.rank = trace.rank
        WHERE kernel.rank = 0 AND kernel.category <> 'collective'
    """
    with loaded(ALEXNET) as trace:
        rows = values(trace, sql)
    assert sorted(rows) == sorted((connection, calls[connection]) for connection in tasks)


def test_counters_are_the_samples_of_the_files() -> None:
    samples = [e for e in alexnet(0) if e["ph"] == "C"]
    sql = "SELECT name, unit, COUNT(*), MAX(value) FROM counter WHERE rank = 0 GROUP BY ALL"
    with loaded(ALEXNET) as trace:
        found = {(name, unit): (n, most) for name, unit, n, most in values(trace, sql)}
    assert found["AI Core Freq", "MHz"] == (2, 1800)
    reads = [float(e["args"]["Read(MB/s)"]) for e in samples if e["name"] == "HBM 0/Read"]
    assert found["HBM 0/Read", "MB/s"] == (len(reads), max(reads))
    column, memory = "Total Reserved(MB)", csv.DictReader((output(0) / "memory_record.csv").open())
    reserved = [float(r[column]) for r in memory if r["Component"] == "APP" and r[column]]
    assert found["memory_record.csv APP Total Reserved", "MB"] == (len(reserved), max(reserved))
    assert found["step_trace_time.csv Computing", "us"][1] == pytest.approx(8873.756)


def test_the_oldest_file_has_steps_and_launching_operators_without_connections() -> None:
    found = events(sample(OLD) / "trace_view.json.gz")
    hardware = complete(found, "Ascend Hardware")
    sql = "SELECT COUNT(*), COUNT(*) FILTER (kind = 'memcpy'), COUNT(step_id) FROM kernel"
    with loaded(OLD) as trace:
        counts = values(trace, sql)
        operators = trace.run("ops.top", limit=0).rows()
    copies = sum(e["name"] == "MEMCPY_ASYNC" for e in hardware)
    ends = sum(e["ph"] == "f" and e.get("cat") == "async_npu" for e in found)
    assert counts == [(len(hardware), copies, ends)]
    assert "aten::addmm" in {r["name"] for r in operators}


def test_the_raw_trace_opens_with_names_of_the_profile() -> None:
    with loaded(ALEXNET) as trace, trace.perfetto(1) as tp:
        rows = tp.query("SELECT category, COUNT(*) AS n FROM slice GROUP BY category")
        found = {row.category: row.n for row in rows}
    assert (found["kernel"], found["communication"], found["gpu_memcpy"]) == (187, 4, 24)


@pytest.mark.parametrize(("name", "said"), [(DUMP, "invented"), (CSV_ONLY, "trace_view.json")])
def test_what_is_no_trace_is_refused_in_one_line(name: str, said: str, tmp_path: Path) -> None:
    assert said in refusal("load", sample(name), "-o", tmp_path / "run.duckdb")
    assert list(tmp_path.iterdir()) == []
