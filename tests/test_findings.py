"""Findings of real traces, and of real ones with one documented change."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import databases
import pytest
import traces
from test_collectives import BUNDLED, DATA, Event, files, written
from unions import gpu_activity, length, union

import traceql

pytestmark = pytest.mark.slow

ONE_RANK = "qwen3-8b-tp1-graph"


def kinds(trace: traceql.Trace) -> dict[str, list[str]]:
    """Sentences by kind of finding."""
    found: dict[str, list[str]] = {}
    for row in trace.run("overview.findings"):
        found.setdefault(row["kind"], []).append(row["finding"])
        assert row["severity"] in ("severe", "notable")
        assert row["advice"]
        trace.run(row["query"], **row["parameters"])
    return found


# --- as recorded -------------------------------------------------------------------------------


def test_transfers_that_nothing_hides_are_the_only_finding_of_a_balanced_run() -> None:
    """Transfers of the file without what compute kernels hide and without waiting."""
    trace = databases.trace(BUNDLED)
    moved_ns, span_ns = [], []
    for file in databases.rank_files(BUNDLED):
        activity = gpu_activity(BUNDLED, file.path)
        moved_ns.append(length(activity.transfer))
        span_ns.append(activity.window[1] - activity.window[0])
        assert not activity.unmatched
        assert length(union([*activity.compute, *activity.comm])) == (
            length(activity.compute) + length(activity.comm)
        )  # nothing is hidden
    (row,) = trace.run("overview.findings").rows()
    assert (row["kind"], row["severity"]) == ("communication", "notable")
    assert row["value"] == pytest.approx(100 * sum(moved_ns) / sum(span_ns))
    assert row["cost_ns"] == sum(moved_ns)
    assert row["finding"].startswith(
        f"Communication that no compute hides takes {sum(moved_ns) / 4e6:.1f} ms per rank, "
        f"{row['value']:.0f}% of the run, without waiting for late ranks; none is hidden"
    )
    assert kinds(trace).keys() == {"communication"}


def test_products_that_lag_are_named_in_order_of_what_they_lose() -> None:
    """Weights of Qwen3-8B at 4.8 TB/s: 755, 252, 377 and 259 us, of 1,078, 460, 579 and 299 us.

    At the share of lm_head, 86.6%, the first three would take 206, 169 and 144 us less.
    """
    trace = databases.trace(ONE_RANK)
    (sentence,) = kinds(trace)["below the roofline"]
    assert sentence.startswith("Decode: down_proj, o_proj, qkv_proj reach 70%, 55%, 65% of")
    assert "and lose 0.52 ms a step" in sentence
    assert sentence.endswith("against lm_head, which reaches 87%.")
    (found,) = (r for r in trace.run("overview.findings") if r["kind"] == "below the roofline")
    (decode,) = trace.sql("SELECT COUNT(*) AS steps FROM step WHERE phase = 'decode'").rows()
    assert found["cost_ns"] / decode["steps"] == pytest.approx(519_000, rel=0.01)
    assert found["saving_ns"] == found["cost_ns"]  # of one rank


def test_waiting_between_stages_is_pipeline_efficiency() -> None:
    found = kinds(databases.trace("qwen3-8b-pp2-graph"))
    assert next(iter(found)) == "PP efficiency"
    assert not {"late rank", "uneven waiting", "communication"} & set(found)


def test_an_eager_run_is_host_bound_once() -> None:
    """No step uses graphs: prefill and decode have one cause, and the saving is an upper limit."""
    trace = databases.trace("qwen3-0.6b-tp1-eager")
    phases = {row["phase"] for row in trace.run("time.lost") if row["cause"] == "host"}
    assert phases >= {"prefill", "decode"}
    (row,) = trace.run("overview.findings").rows()  # kernels lose less than 1% of such a run
    assert (row["kind"], row["severity"], row["parameters"]) == ("host-bound steps", "severe", {})
    assert row["finding"].startswith("All steps run without CUDA graphs and wait for the host")
    assert row["assumption"].startswith("if the host never held them up")
    idle = trace.sql("SELECT SUM(dur) AS ns FROM gap WHERE cause IN ('host', 'sync')")
    assert row["saving_ns"] == idle.rows()[0]["ns"]
    assert "enforce_eager" in row["advice"]


# --- the root cause of a serving run -----------------------------------------------------------


def test_serving_loses_its_time_to_the_host_in_mixed_steps_without_graphs() -> None:
    """Gaps and waits are summed again: idle time by the gap's own step and rank, and waiting, from
    the starts of an operation on both ranks, by the step and rank that it was for.
    """
    trace = databases.trace(databases.SERVING)
    lost: Counter[tuple[int, int]] = Counter()  # by the rank that loses and the step of the cause
    for gap in trace.sql("SELECT * FROM gap WHERE cause IN ('host', 'sync')"):
        lost[gap["rank"], gap["step_id"]] += gap["dur"]
    for wait in waits_for_hosts(trace):
        lost[wait["rank"], wait["step_id"]] += wait["ns"]
    steps = {row["step_id"]: row for row in trace.sql("FROM step WHERE gpu_dur IS NOT NULL")}
    assert {steps[number]["graph_mode"] for _, number in lost} == {"none", "full"}

    of_step: Counter[int] = Counter()
    for (_, number), ns in lost.items():
        of_step[number] += ns
    eager = [n for n, row in steps.items() if row["graph_mode"] == "none"]
    decode = [
        n for n, row in steps.items() if (row["phase"], row["graph_mode"]) == ("decode", "full")
    ]
    assert {steps[number]["phase"] for number in eager} == {"mixed", "prefill"}
    assert len(eager) + len(decode) == len(steps) == 448
    kept_ns = sum(of_step[number] for number in decode) / len(decode)
    saved_ns = sum(max(0, of_step[number] - kept_ns) for number in eager)

    first = trace.run("overview.findings").rows()[0]
    assert (first["kind"], first["severity"]) == ("host-bound steps", "severe")
    assert first["cost_ns"] == sum(of_step[number] for number in eager)
    assert first["saving_ns"] == pytest.approx(saved_ns / 2, abs=1)
    assert f"({kept_ns / 1e6:.2f} ms each)" in first["assumption"]
    assert first["finding"].startswith(
        "Mixed and prefill steps run without CUDA graphs and wait for the host: 47 of 224 steps, "
        "which take 64% of the run"
    )
    ms = first["cost_ns"] / 2e6
    assert f"each rank loses {ms:.1f} ms on average until a host launches" in first["finding"]
    of_rank_0 = [number for number in eager if steps[number]["rank"] == 0]
    idle_ns, wait_ns = (sum(lost[rank, number] for number in of_rank_0) for rank in (0, 1))
    assert (
        f"due to the host of rank 0: its GPU is idle for {idle_ns / 1e6:.1f} ms, "
        f"and other ranks wait {wait_ns / 1e6:.1f} ms for it"
    ) in first["finding"]
    assert "raise max_cudagraph_capture_size" in first["advice"]
    assert "2,048 tokens" in first["advice"]


def waits_for_hosts(trace: traceql.Trace) -> list[dict[str, Any]]:
    """Each wait for a rank whose host was late: the rank that waits, and the step waited for.

    In this run nothing overlaps with an operation, so that all waiting is exposed.
    """
    return trace.select(
        """
        WITH begun AS (
            SELECT match_id, kernel.rank, kernel.ts, kernel.dur, kernel.step_id
            FROM collective INNER JOIN kernel ON collective.kernel_id = kernel.id
        )
        SELECT own.rank, late.step_id, LEAST(own.dur, late.ts - own.ts) AS ns
        FROM begun AS own
        INNER JOIN begun AS late ON own.match_id = late.match_id AND own.ts < late.ts
        INNER JOIN straggler ON own.match_id = straggler.match_id AND straggler.cause = 'host'
        """
    ).rows()


def test_links_are_judged_by_large_messages() -> None:
    """By events the middle size reaches 61% of 450 GB/s in all_reduce, 45% in reduce_scatter."""
    with traceql.open(*sorted((DATA / "nccl-2gpu").glob("rank*.gz"))) as trace:
        found = {sentence.split()[0] for sentence in kinds(trace)["link use"]}
    assert "reduce_scatter" in found
    assert "all_reduce" not in found


# --- with one change ---------------------------------------------------------------------------


def changed(folder: Path, old: str, new: str) -> dict[str, list[str]]:
    """Findings of a run of one rank in which the names of events were changed."""
    (document,) = files(ONE_RANK).values()
    for event in document["traceEvents"]:
        event["name"] = event["name"].replace(old, new)
    with traceql.open(written(folder, {0: document})) as trace:
        return kinds(trace)


def test_padding_of_graphs(tmp_path: Path) -> None:
    """Four steps say that they had one token, and wrote the keys of four; one had and wrote two."""
    found = changed(tmp_path, "generation_4(4)", "generation_1(1)")
    assert found["graph padding"] == [
        "Graph replays computed 18 tokens, 67% of which were padding."
    ]


def test_kernels_that_no_rule_matches(tmp_path: Path) -> None:
    found = changed(tmp_path, "nvjet", "mystery")
    assert next(iter(found)) == "unclassified time"
    assert "No event was lost" in found["broken ledger"][0]


def test_a_slow_profiler(tmp_path: Path) -> None:
    overhead = {"profiled_ns": 125 * 10**7, "unprofiled_ns": 10**9, "overhead_pct": 25.0}
    facts = {"schema_version": 1, "kind": "program", "status": "complete", "overhead": overhead}
    written(tmp_path / "traces", files(ONE_RANK))
    (tmp_path / "run.json").write_text(json.dumps(facts))
    with traceql.open(tmp_path) as trace:
        assert kinds(trace)["profiler overhead"] == [
            "The profiler made this run 25% slower: "
            "the same work takes 1,250.0 ms with it and 1,000.0 ms without."
        ]


# --- small traces ------------------------------------------------------------------------------


def collectives(*, late: int | None) -> list[list[Event]]:
    """Four ranks compute and then all-reduce, 20 times, us.

    In each the kernel of one rank takes 200 us longer: of the late one, or of each in turn.
    """
    found = []
    for rank in range(4):
        events = []
        for n in range(20):
            at, number = 1000.0 * n, 2 * n + 1
            delay = 200 if rank == (n % 4 if late is None else late) else 0
            events += [
                traces.launch(ts=at - 2, correlation=number),
                traces.kernel(ts=at, dur=500 + delay, correlation=number),
                traces.launch(ts=at, correlation=number + 1),
                traces.all_reduce(
                    ts=at + 500 + delay, dur=300 - delay, ranks=range(4), correlation=number + 1
                ),
            ]
        found.append(events)
    return found


def test_one_late_rank_is_named(tmp_path: Path) -> None:
    """20 operations, 200 us late each: the other three wait 4 ms of about 19.8.

    What the late rank did before the first one is not recorded, so 19 of 20 count.
    """
    with traces.loaded(tmp_path, *collectives(late=2)) as trace:
        found = kinds(trace)
    assert found["late rank"] == [
        "Rank 2 is late: ranks 0, 1, 3 waited 3.8, 3.8, 3.8 ms in collectives. 100% of the wait "
        "was for rank 2, whose kernels took longer, which explains 100% of that wait."
    ]
    assert "uneven waiting" not in found


def test_ranks_that_are_late_in_turns_are_not_blamed(tmp_path: Path) -> None:
    with traces.loaded(tmp_path, *collectives(late=None)) as trace:
        found = kinds(trace)
    assert "late rank" not in found
    assert len(found["uneven waiting"]) == 1


def test_the_host_is_not_blamed_for_a_gap_after_the_launch(tmp_path: Path) -> None:
    """The host launches 40 us after the gap began and copies from then on; 10 ms later it starts.

    The same with the launch at the end of the gap is the host's doing.
    """
    for launched, kind in ((1040, "GPU idle"), (10_990, "host-bound steps")):
        folder = tmp_path / str(launched)
        events = [
            traces.launch(ts=0, correlation=1),
            traces.kernel(ts=10, dur=990, correlation=1),
            traces.launch(ts=launched, dur=5, correlation=2),
            traces.host("hipMemcpyWithStream", ts=launched + 5, dur=9_000, cat="cuda_runtime"),
            traces.kernel(ts=11_000, dur=1000, correlation=2),
        ]
        with traceql.open(traces.write(folder / "rank0.json", *events)) as trace:
            (gap,) = trace.run("idle.gaps").rows()
            assert (gap["cause"], gap["dur"]) == ("host", 10_000_000)
            assert gap["launched_ns"] == (11_000 - launched - 5) * 1000
            found = kinds(trace)
        assert list(found) == [kind]
        assert "idle for 10.0 ms" in found[kind][0]
        said = "100% of it has the cause 'launch': the next kernel was launched but had not started"
        assert (said in found[kind][0]) == (kind == "GPU idle")
