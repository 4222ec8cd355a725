"""Recordings of programs as users write them; what is expected is calculated from their JSON."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from unions import length, union

import traceql

TRACES = Path(__file__).with_name("data") / "program-traces"
_ON_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}


class Activity(NamedTuple):
    ts: int  # ns, as in the file
    end: int
    correlation: int


@cache
def events(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found: list[dict[str, Any]] = json.loads(text, parse_float=Decimal)["traceEvents"]
    return [event for event in found if event.get("ph") == "X"]


def ns(us: Decimal) -> int:
    return int(us * 1000)


def activities(path: Path) -> dict[int, list[Activity]]:
    """By device."""
    found = defaultdict(list)
    for one in events(path):
        if one["cat"] in _ON_GPU:
            ts, args = ns(one["ts"]), one["args"]
            device = args.get("device", one["pid"])  # copies between devices have none
            found[device].append(Activity(ts, ts + ns(one["dur"]), args["correlation"]))
    return dict(found)


def window_ns(own: Sequence[Activity]) -> int:
    return max(one.end for one in own) - min(one.ts for one in own)


def busy_ns(own: Sequence[Activity]) -> int:
    return length(union((one.ts, one.end) for one in own))


@contextmanager
def loaded(folder: Path, *traces: Path) -> Iterator[traceql.Run]:
    database = traceql.load(traces, folder / "run.duckdb").database
    with traceql.open(database) as run:
        yield run


def failed_checks(run: traceql.Run) -> list[str]:
    return [row["check_name"] for row in run.sql("FROM ledger WHERE NOT ok").rows()]


def device_times(run: traceql.Run) -> dict[tuple[int, int], tuple[int, int]]:
    """Window and idle time by rank and device, ns."""
    rows = run.sql("""
        SELECT rank, device, MAX(ts + dur) - MIN(ts) AS window_ns, ANY_VALUE(idle_ns) AS idle_ns
        FROM kernel
        LEFT JOIN (
            SELECT rank, device, CAST(SUM(dur) AS BIGINT) AS idle_ns FROM gap GROUP BY ALL
        ) USING (rank, device)
        GROUP BY ALL
    """)
    return {(r["rank"], r["device"]): (r["window_ns"], r["idle_ns"]) for r in rows.rows()}


def expected_times(*paths: Path) -> dict[tuple[int, int], tuple[int, int]]:
    return {
        (rank, device): (window_ns(own), window_ns(own) - busy_ns(own))
        for rank, path in enumerate(paths)
        for device, own in activities(path).items()
    }


def test_each_device_of_a_process_has_its_own_window(tmp_path: Path) -> None:
    path = TRACES / "two-gpus-one-process.json.gz"
    with loaded(tmp_path, path) as run:
        expected = expected_times(path)
        assert len(expected) == 2
        assert device_times(run) == expected
        steps = run.sql("SELECT DISTINCT rank, number FROM step").rows()
        assert len(steps) == len({e["name"] for e in events(path) if "ProfilerStep" in e["name"]})
        spent = run.sql("SELECT device, SUM(gpu_dur) AS ns FROM step GROUP BY device").rows()
        assert all(row["ns"] <= expected[0, row["device"]][0] for row in spent)


def test_steps_of_a_host_that_runs_ahead_follow_each_other(tmp_path: Path) -> None:
    path = TRACES / "host-runs-ahead.json.gz"
    spans = [
        (ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]))
        for e in events(path)
        if e["name"].startswith("ProfilerStep") and e["cat"] == "user_annotation"
    ]
    launched = {
        e["args"]["correlation"]: ns(e["ts"])
        for e in events(path)
        if e["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in e["args"]
    }
    ends: list[int] = []
    for begin, end in sorted(spans):
        own = [a.end for a in activities(path)[0] if begin <= launched.get(a.correlation, -1) < end]
        ends.append(max(own))
    with loaded(tmp_path, path) as run:
        assert device_times(run) == expected_times(path)
        base = min(ns(e["ts"]) for e in events(path))
        steps = run.sql("SELECT gpu_ts, gpu_ts + gpu_dur AS gpu_end FROM step ORDER BY ts").rows()
        assert [row["gpu_end"] + base for row in steps] == ends
        assert [row["gpu_ts"] for row in steps[1:]] == [row["gpu_end"] for row in steps[:-1]]


def test_a_process_without_a_gpu_beside_ranks_is_no_rank(tmp_path: Path) -> None:
    folder = TRACES / "ddp-and-front-end"
    with loaded(tmp_path, folder) as run:
        files = run.sql("SELECT rank, world_size FROM trace ORDER BY rank NULLS LAST").rows()
        assert [row["rank"] for row in files] == [0, 1, None]
        assert {row["world_size"] for row in files[:2]} == {2}
        paths = [folder / f"trace_{rank}.json.gz" for rank in range(2)]
        assert device_times(run) == expected_times(*paths)
        (front_end,) = folder.glob("*async_llm*")
        (kept,) = run.sql("SELECT COUNT(*) AS slices FROM slice WHERE rank IS NULL").rows()
        assert kept["slices"] == len(events(front_end))
        (collectives,) = run.sql(
            "SELECT COUNT(*) AS n, COUNT(match_id) AS m FROM collective"
        ).rows()
        assert collectives["n"] == collectives["m"] > 0


def test_replicas_that_are_all_rank_0_of_1_are_ranks_of_one_run(tmp_path: Path) -> None:
    folder = TRACES / "replicas"
    with loaded(tmp_path, folder) as run:
        rows = run.sql("SELECT rank, world_size, dp_rank, path FROM trace ORDER BY rank").rows()
        assert [(r["rank"], r["world_size"], r["dp_rank"]) for r in rows] == [(0, 2, 0), (1, 2, 1)]
        assert device_times(run) == expected_times(*(Path(r["path"]) for r in rows))
        assert run.sql("FROM collective WHERE match_id IS NOT NULL").rows() == []


@pytest.mark.parametrize(
    ("folder", "cycles"), [("cycles", 3), ("vllm-tp2-served", 2), ("vllm-dp2-served", 2)]
)
def test_cycles_of_one_process_are_named_and_not_mixed(
    folder: str, cycles: int, tmp_path: Path
) -> None:
    with pytest.raises(traceql.TraceqlError, match="cycle") as stopped:
        traceql.load(TRACES / folder, tmp_path / "run.duckdb")
    assert not (tmp_path / "run.duckdb").exists()
    message = str(stopped.value)
    assert message.count(" -o cycle") == cycles
    assert all(path.name in message for path in (TRACES / folder).iterdir())


@pytest.mark.parametrize("folder", ["vllm-tp2-served", "vllm-dp2-served"])
def test_a_cycle_of_a_server_has_two_ranks_and_a_front_end(folder: str, tmp_path: Path) -> None:
    files = sorted((TRACES / folder).iterdir(), key=lambda p: int(p.name.split(".")[-5]))
    half = len(files) // 2
    with loaded(tmp_path, *files[:half]) as run:
        rows = run.sql("SELECT rank, world_size FROM trace ORDER BY rank NULLS LAST").rows()
        assert [row["rank"] for row in rows] == [0, 1, None]
        assert {row["world_size"] for row in rows[:2]} == {2}
        assert failed_checks(run) == []


def test_launches_inside_a_graph_capture_are_not_lost(tmp_path: Path) -> None:
    path = TRACES / "graph-capture-and-replays.json.gz"
    with loaded(tmp_path, path) as run:
        assert device_times(run) == expected_times(path)
        assert failed_checks(run) == []


def test_gpu_activities_alone_have_all_times(tmp_path: Path) -> None:
    path = TRACES / "gpu-activities-only.json.gz"
    with loaded(tmp_path, path) as run:
        assert device_times(run) == expected_times(path)
        assert failed_checks(run) == []


def test_cpu_activities_alone_fail_the_ledger(tmp_path: Path) -> None:
    with loaded(tmp_path, TRACES / "cpu-activities-only.json.gz") as run:
        assert failed_checks(run) != []


def test_names_that_are_not_escaped_are_repaired_and_counted(tmp_path: Path) -> None:
    path = TRACES / "names-not-escaped.json.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    with loaded(tmp_path, path) as run:
        (kept,) = run.sql("SELECT COUNT(*) AS slices FROM slice").rows()
        assert kept["slices"] == text.count('"ph": "X"')
        assert run.sql("FROM slice WHERE name LIKE '%\"quoted\" C:/users/name>%'").rows()


@pytest.mark.parametrize(
    ("name", "layers", "passes"),
    [("vit", 12, 1), ("bert", 5, 2), ("gpt2", 5, 2), ("encoder", 6, 1), ("t5", 3 + 4, 1)],
)
def test_modules_that_repeat_are_layers(
    name: str, layers: int, passes: int, tmp_path: Path
) -> None:
    with loaded(tmp_path, TRACES / "stacks" / f"{name}.json.gz") as run:
        found = run.sql("SELECT pass, layer FROM layer ORDER BY ts").rows()
        expected = [(number, layer) for number in range(passes) for layer in range(layers)]
        assert [(row["pass"], row["layer"]) for row in found] == expected


def test_the_profiler_of_jax_names_the_device(tmp_path: Path) -> None:
    path = TRACES / "jax" / "node1.trace.json.gz"
    found = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    (process,) = (e["pid"] for e in found if e.get("args", {}).get("name") == "/device:GPU:0")
    streams = {
        e["tid"]
        for e in found
        if e.get("name") == "thread_name" and e["args"]["name"].startswith("Stream #")
    }
    kernels = [e for e in found if e.get("pid") == process and e.get("tid") in streams]
    with loaded(tmp_path, path) as run:
        rows = run.sql("SELECT device, COUNT(*) AS kernels FROM kernel GROUP BY device").rows()
        expected = [(0, sum(e["ph"] == "X" for e in kernels))]
        assert [(row["device"], row["kernels"]) for row in rows] == expected


def test_the_profiler_of_triton(tmp_path: Path) -> None:
    proton = json.loads((TRACES / "proton.chrome_trace").read_text())["traceEvents"]
    with loaded(tmp_path, TRACES / "proton.chrome_trace") as run:
        (found,) = run.sql("SELECT COUNT(*) AS kernels, SUM(dur) AS ns FROM kernel").rows()
        kernels = [e for e in proton if e.get("ph") == "X"]
        assert found["kernels"] == len(kernels)


@pytest.mark.parametrize("name", ["memory-timeline.json", "memory-timeline.raw.json.gz"])
def test_a_memory_timeline_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(traceql.TraceqlError, match="memory timeline"):
        traceql.load(TRACES / "not-traces" / name, tmp_path / "run.duckdb")
