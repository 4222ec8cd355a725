"""Causes that lie in the recording: what makes numbers untrue, and what only limits them."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import databases
import pytest
import traces
from cause_rows import lost, require_short, row_of

import traceql

pytestmark = pytest.mark.slow

NCCL_TP4 = databases.EXAMPLES / "qwen3-32b-tp4-graph-nccl"


def causes_of(path: Path, database: Path) -> dict[str, dict[str, Any]]:
    with traceql.open(traceql.load(path, database).database) as run:
        return {row["cause"]: row for row in run.select("FROM diagnosis")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return causes_of(NCCL_TP4, tmp_path_factory.mktemp("whole") / "run.duckdb")


def test_nothing_is_wrong_with_a_whole_recording(whole: dict[str, dict[str, Any]]) -> None:
    for cause in (
        *("broken_ledger", "inconsistent_layers", "inconsistent_times", "missing_ranks"),
        *("unmatched_operations", "recording_edges"),
    ):
        assert whole[cause]["state"] == "ruled out", cause
    assert whole["profiler_overhead"]["state"] == "undecided"  # it has no pass without the profiler


# --- ranks and times ---------------------------------------------------------------------------


def two_ranks(folder: Path, *, apart_us: float = 0, ranks: int = 2) -> Path:
    """Ranks with four equal steps, each with an all-reduce."""
    for rank in range(ranks):
        begin = apart_us * rank
        events = [
            event
            for n in range(4)
            for event in (
                traces.step(ts=begin + 200 * n, dur=100, generation=(4, 4)),
                traces.launch(ts=begin + 200 * n + 1, correlation=2 * n),
                traces.kernel(ts=begin + 200 * n + 5, dur=50, correlation=2 * n),
                traces.all_reduce(ts=begin + 200 * n + 60, dur=20, ranks=(0, 1)),
            )
        ]
        traces.write(
            folder / f"rank{rank}.json",
            *events,
            baseTimeNanoseconds=1_790_000_000_000_000_000,
            distributedInfo={"rank": rank, "world_size": 2},
        )
    return folder


def test_ranks_of_two_runs_make_waiting_untrue(tmp_path: Path) -> None:
    hour_us = 3600e6
    found = causes_of(two_ranks(tmp_path / "t", apart_us=hour_us), tmp_path / "run.duckdb")
    cause = found["inconsistent_times"]
    assert cause["severity"] == "severe"
    assert cause["headline"] == "Rank 1 was recorded 3,600.0 s apart from rank 0"
    same = causes_of(two_ranks(tmp_path / "same"), tmp_path / "same.duckdb")
    assert same["inconsistent_times"]["state"] == "ruled out"


def test_clocks_that_do_not_agree_are_notable() -> None:
    clock = {"rank": 0, "kernels": 9, "early": 3, "early_ns": 24_000, "waits": 0, "late": 0,
             "late_ns": 0, "drift_ns": 0, "agrees": False}  # fmt: skip
    row = row_of("inconsistent_times", host_clock=[clock], recorder=[{"rank": 0, "first_ns": 1}])
    assert row["is_confirmed"]
    assert (row["is_severe"], row["is_notable"]) == (False, True)
    assert "3 kernels start up to 24 us before" in " ".join(filter(None, row["evidence"]))
    require_short(row)
    assert row_of("inconsistent_times")["is_confirmed"] is None  # nothing was recorded


def test_a_missing_rank_is_named_once(tmp_path: Path) -> None:
    found = causes_of(two_ranks(tmp_path / "t", ranks=1), tmp_path / "run.duckdb")
    assert found["missing_ranks"]["headline"] == "1 of 2 ranks were loaded"
    assert found["missing_ranks"]["evidence"][0] == "Missing: rank 1."
    # 20 us of 80 in a step are operations of which the other rank is missing.
    assert found["missing_ranks"]["severity"] == "notable"
    assert found["unmatched_operations"]["state"] == "ruled out"


def test_operations_that_ranks_do_not_share_are_unmatched() -> None:
    operation = {"rank": 0, "group_size": 2}
    tables: dict[str, Any] = {
        "trace": [{"rank": n, "world_size": 2} for n in range(2)],
        "time_unit": [lost(0, 2_000_000, part="unmatched")],
    }
    row = row_of("unmatched_operations", collective=[operation] * 4, **tables)
    assert row["is_confirmed"]
    assert row["headline"] == "4 of 4 operations were not found on all their ranks"
    assert "2.00 ms a step, 20% of it" in row["evidence"][0]
    row = row_of("unmatched_operations", collective=[operation | {"wait_ns": 0}] * 4, **tables)
    assert row["is_confirmed"] is False


# --- what is missing ---------------------------------------------------------------------------


def ledger(*checks: tuple[str, int, int, bool]) -> dict[str, Any]:
    rows = [
        {"rank": 0, "check_name": name, "value": value, "total": total, "ok": ok}
        for name, value, total, ok in checks
    ]
    return row_of("broken_ledger", ledger=rows, lost_records=[{"launches": 0, "pct": 0.0}])


def test_missing_gpu_activity_makes_sums_untrue() -> None:
    row = ledger(("events kernel", 90, 100, False), ("events cpu_op", 5, 5, True))
    assert row["is_confirmed"]
    assert row["is_severe"]
    assert row["evidence"] == ["events kernel: 90 of 100.", None]
    require_short(row)


def test_what_sums_do_not_need_is_a_remark() -> None:
    """A line of steps.jsonl that fits no step, and 2 of 1,000 records that were lost."""
    row = ledger(
        ("times of iterations", 9, 10, False),
        ("launches without a recorded kernel", 2, 1000, False),
    )
    assert (row["is_confirmed"], row["is_severe"], row["is_remark"]) == (True, False, True)
    assert row["headline"] == "2 of 2 checks of the ledger failed"


def test_missing_layers_are_no_broken_ledger() -> None:
    """All counts and durations hold, so that sums are right."""
    row = ledger(("layers attributed", 0, 24, False), ("events kernel", 9, 9, True))
    assert row["is_confirmed"] is False
    assert row_of("broken_ledger")["is_confirmed"] is None


def test_a_model_that_is_not_recognized_is_a_remark(tmp_path: Path) -> None:
    run = databases.SHARED.parent / "reports" / "gpt-oss-on-mi300x"
    if not run.is_dir():
        pytest.skip(f"no {run}")
    # Without the copies of its inputs, nothing shows where the only pass begins.
    document = json.loads(gzip.decompress((run / "trace.json.gz").read_bytes()))
    document["traceEvents"] = [
        one
        for one in document["traceEvents"]
        if one.get("cat") != "gpu_memcpy" and not str(one.get("name")).startswith("hipMemcpy")
    ]
    file = tmp_path / "rank0.trace.json"
    file.write_text(json.dumps(document))
    found = causes_of(file, tmp_path / "run.duckdb")
    assert found["broken_ledger"]["state"] == "ruled out"
    cause = found["inconsistent_layers"]
    assert (cause["state"], cause["severity"]) == ("confirmed", "remark")
    assert "sums hold" in cause["headline"]
    assert "24 of 24 KV-cache writes are in no layer." in cause["evidence"]
    assert any("_matmul_ogs" in text for text in cause["evidence"])


def test_a_layer_that_lost_a_kernel_is_unlike_its_siblings(tmp_path: Path) -> None:
    """Of 7 passes of 36 layers, 5 are inside; in the middle one, a layer lacks its activation."""
    folder = tmp_path / "run"
    shutil.copytree(databases.EXAMPLES / "qwen3-8b-tp1-graph", folder)
    (file,) = folder.glob("*.json.gz")
    document = json.loads(gzip.decompress(file.read_bytes()))
    events = document["traceEvents"]
    activations = [
        number
        for number, event in enumerate(events)
        if event.get("cat") == "kernel" and "silu" in event["name"]
    ]
    del events[activations[len(activations) // 2]]
    file.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    cause = causes_of(folder, tmp_path / "run.duckdb")["inconsistent_layers"]
    assert (cause["state"], cause["severity"]) == ("confirmed", "remark")
    assert cause["headline"] == "1 of 180 layers differ from others of their kind; sums hold"


# --- the profiler, and edges -------------------------------------------------------------------


def overhead(pct: float | None, **profiler: bool) -> dict[str, Any]:
    document = json.dumps({"profiler": profiler})
    run = {"run": "r", "overhead_pct": pct, "profiled_ns": 100, "unprofiled_ns": 50,
           "iterations": 5, "document": document}  # fmt: skip
    return row_of("profiler_overhead", run=[run])


def test_overhead_of_the_profiler_is_a_remark_until_it_doubles_the_run() -> None:
    assert overhead(9)["is_confirmed"] is False
    assert overhead(None)["is_confirmed"] is None
    row = overhead(60, shapes=True, stacks=False)
    assert row["is_remark"]
    assert row["remedy"] == "traceql capture run ... --no-shapes"
    assert overhead(173, stacks=True, shapes=False)["is_notable"]
    require_short(row)


def steps(*requests: int, spans_ms: tuple[float, ...] = ()) -> list[dict[str, Any]]:
    spans = spans_ms or (10,) * len(requests)
    return [
        {"rank": 0, "device": 0, "number": n, "step_id": n, "phase": "decode", "requests": count,
         "context_tokens": 0, "span_ns": int(1e6 * span), "is_edge": n in (0, len(requests) - 1)}
        for n, (count, span) in enumerate(zip(requests, spans, strict=True))
    ]  # fmt: skip


def test_a_batch_that_drains_is_the_edge_of_the_recording() -> None:
    row = row_of("recording_edges", engine_step=steps(16, 16, 16, 16, 16, 9, 4, 1))
    assert row["is_confirmed"]
    assert row["headline"] == "The last 3 of 8 steps run 9 to 1 requests: the workload ends"


@pytest.mark.parametrize(
    ("requests", "confirmed"),
    [
        ((16, 16, 16, 16, 16), False),
        ((16, 4, 16, 16, 16), False),  # a small step in the middle
        ((16, 16, 16, 4, 9), False),  # requests begin again
        ((16, 1), None),
        ((), None),
    ],
)
def test_other_small_steps_are_no_edge(requests: tuple[int, ...], confirmed: bool | None) -> None:
    row = row_of("recording_edges", engine_step=steps(*requests))
    assert row["is_confirmed"] is confirmed
    assert row["reason"]


def test_the_first_step_is_long_as_the_profiler_starts() -> None:
    units = [lost(0, 5_500_000, cause="start", root_rank=1)]
    spans = (20.0, 10.0, 10.0, 10.0, 10.0)
    row = row_of(
        "profiler_start_transient", engine_step=steps(*(4,) * 5, spans_ms=spans), time_unit=units
    )
    assert row["is_confirmed"]
    assert row["headline"] == "Ranks begin up to 5.5 ms apart, as the profiler starts"
    assert (
        row["evidence"][1]
        == "The first step takes up to 20.0 ms; others of the phase take 10.0 ms."
    )
    assert [claim["ns"] for claim in row["claims"]] == [5_500_000]


def test_a_long_step_in_the_middle_is_no_start() -> None:
    spans = (10.0, 10.0, 20.0, 10.0, 10.0)
    row = row_of("profiler_start_transient", engine_step=steps(*(4,) * 5, spans_ms=spans))
    assert row["is_confirmed"] is False
    assert row_of("profiler_start_transient", engine_step=steps(4, 4))["is_confirmed"] is None
