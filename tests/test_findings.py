"""What is told of a run and what is not: real traces, and real ones with one documented change."""

import json
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import databases
import pytest
import traces
from test_collectives import BUNDLED, DATA, LATE_RANK, Event, files, is_operation, moved, written
from unions import union

import traceql

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


def test_nothing_is_told_of_a_balanced_and_busy_run() -> None:
    assert kinds(databases.trace(BUNDLED)) == {}


def test_one_rank_has_nobody_to_wait_for() -> None:
    found = kinds(databases.trace(ONE_RANK))
    assert list(found) == ["GPU idle"]  # 37.5 of 105.1 ms, by hand
    assert found["GPU idle"][0].startswith("The GPU of rank 0 is idle for 37.5 ms, 36% of its span")


@pytest.mark.slow
def test_a_late_host_is_the_first_thing_told() -> None:
    found = kinds(databases.trace(LATE_RANK))
    assert next(iter(found)) == "late rank"
    assert "Rank 3 is late" in found["late rank"][0]
    assert "communication" not in found


@pytest.mark.slow
def test_serving_is_idle_and_waits_for_rank_0() -> None:
    found = kinds(databases.trace(databases.SERVING))
    assert set(found) == {"GPU idle", "late rank"}
    assert "Rank 0 is late: rank 1 waited 486.4 ms" in found["late rank"][0]


@pytest.mark.slow
def test_a_pipeline_is_told_as_one() -> None:
    found = kinds(databases.trace("qwen3-8b-pp2-graph"))
    assert "PP efficiency" in found
    assert not {"late rank", "uneven waiting", "TP efficiency"} & set(found)


def test_links_are_judged_by_large_messages() -> None:
    """By events the middle size reaches 61% of 450 GB/s in all_reduce, 45% in reduce_scatter."""
    with traceql.open(*sorted((DATA / "nccl-2gpu").glob("rank*.gz"))) as trace:
        told = {sentence.split()[0] for sentence in kinds(trace)["link use"]}
    assert "reduce_scatter" in told
    assert "all_reduce" not in told


# --- with one change ---------------------------------------------------------------------------


def changed(
    folder: Path, run: str, change: Callable[[int, Event], Event], **more: Any
) -> dict[str, list[str]]:
    """Findings of a run of which each event of each rank was changed."""
    documents = {
        rank: document
        | {"traceEvents": [change(rank, event) for event in document["traceEvents"]]}
        | more
        for rank, document in files(run).items()
    }
    with traceql.open(written(folder, documents)) as trace:
        return kinds(trace)


@pytest.mark.slow
def test_pauses_of_all_ranks_are_idle_time_and_no_waiting(tmp_path: Path) -> None:
    """All clocks stop for 25 ms wherever no rank's GPU does anything for 0.1 ms: between steps."""
    documents = files(BUNDLED)
    busy = sorted(
        (e["ts"], e["ts"] + e["dur"])
        for document in documents.values()
        for e in document["traceEvents"]
        if e.get("cat") in databases.GPU
    )
    stops, until = [], busy[0][1]
    for begin, end in busy:
        if begin > until + 100:
            stops.append(begin - 50)
        until = max(until, end)
    assert stops

    def stopped(ts: float) -> float:
        return ts + 25_000.0 * len([stop for stop in stops if stop <= ts])

    stopping = {rank: moved(document, stopped) for rank, document in documents.items()}
    with traceql.open(written(tmp_path, stopping)) as trace:
        assert set(kinds(trace)) == {"GPU idle"}


@pytest.mark.slow
def test_long_transfers_are_communication_and_no_waiting(tmp_path: Path) -> None:
    """All clocks run five times slower while no rank reduces: of 176.2 ms, 41.9 stay as they were,
    and of 134.3 a fifth is left; 35.1 of these 68.8 ms are transfers.
    """
    documents = files(BUNDLED)
    reducing = union(
        (e["ts"], e["ts"] + e["dur"])
        for document in documents.values()
        for e in document["traceEvents"]
        if is_operation(e)
    )
    begins, first = [begin for begin, _ in reducing], reducing[0][0]
    before = [0.0, *accumulate(end - begin for begin, end in reducing)]

    def slowed(ts: float) -> float:
        number = bisect(begins, ts)
        reduced = before[number] - (max(0, reducing[number - 1][1] - ts) if number else 0)
        return first + reduced + (ts - first - reduced) / 5

    slower = {rank: moved(document, slowed) for rank, document in documents.items()}
    with traceql.open(written(tmp_path, slower)) as trace:
        found = kinds(trace)
    assert set(found) == {"communication", "TP efficiency"}
    assert "35.1 ms per rank, 51% of the run" in found["communication"][0]


@pytest.mark.slow
def test_decode_without_graphs(tmp_path: Path) -> None:
    def change(_rank: int, event: Event) -> Event:
        if event.get("name") == "cudaGraphLaunch":
            return event | {"name": "cudaLaunchKernel"}
        return event

    found = changed(tmp_path, ONE_RANK, change)
    assert found["decode without graphs"] == ["5 of 5 decode steps ran without a CUDA graph."]


@pytest.mark.slow
def test_padding_of_graphs(tmp_path: Path) -> None:
    """Four steps say that they had one token, and wrote the keys of four; one had and wrote two."""

    def change(_rank: int, event: Event) -> Event:
        return event | {"name": event["name"].replace("generation_4(4)", "generation_1(1)")}

    found = changed(tmp_path, ONE_RANK, change)
    assert found["graph padding"] == [
        "Graph replays computed 18 tokens, 67% of which were padding."
    ]


@pytest.mark.slow
def test_kernels_that_no_rule_knows(tmp_path: Path) -> None:
    def change(_rank: int, event: Event) -> Event:
        return event | {"name": event["name"].replace("nvjet", "mystery")}

    found = changed(tmp_path, ONE_RANK, change)
    assert next(iter(found)) == "broken ledger"
    assert "unclassified time" in found


@pytest.mark.slow
def test_a_missing_rank(tmp_path: Path) -> None:
    documents = files(BUNDLED)
    del documents[0]
    with traceql.open(written(tmp_path, documents)) as trace:
        found = kinds(trace)
    assert found["unmatched operations"] == [
        "2,340 of 2,340 collective operations were not found on all their ranks: "
        "their wait time is unknown."
    ]
    assert not {"late rank", "uneven waiting", "communication"} & set(found)


@pytest.mark.slow
def test_a_slow_profiler(tmp_path: Path) -> None:
    facts = {"schema_version": 1, "kind": "program", "status": "complete"}
    overhead = {"profiled_ns": 1_250, "unprofiled_ns": 1_000, "overhead_pct": 25.0}
    folder = tmp_path / "run"
    written(folder / "traces", files(ONE_RANK))
    (folder / "run.json").write_text(json.dumps(facts | {"overhead": overhead}))
    with traceql.open(folder) as trace:
        assert kinds(trace)["profiler overhead"] == ["The profiler made this run 25% slower."]


# --- small traces ------------------------------------------------------------------------------


def test_a_host_that_waits_for_the_gpu(tmp_path: Path) -> None:
    """10 kernels of 10 us; after each the host synchronizes for 20 us more."""
    events = []
    for n in range(10):
        at = 40 * n
        events += [
            traces.launch(ts=at, dur=1, correlation=n + 1),
            traces.kernel(ts=at + 2, dur=10, correlation=n + 1),
            traces.host("cudaStreamSynchronize", ts=at + 2, dur=30, cat="cuda_runtime"),
        ]
    with traceql.open(traces.write(tmp_path / "a.json", *events)) as trace:
        found = kinds(trace)
    assert found["host synchronisation"] == [
        "The GPU of rank 0 is idle for 0.3 ms because its host is blocked in a synchronizing call."
    ]


def test_copies_that_nothing_hides(tmp_path: Path) -> None:
    events = [
        event
        for n in range(5)
        for event in (
            traces.kernel(ts=100 * n, dur=80),
            traces.kernel("Memcpy HtoD", ts=100 * n + 80, dur=20, cat="gpu_memcpy"),
        )
    ]
    with traceql.open(traces.write(tmp_path / "a.json", *events)) as trace:
        found = kinds(trace)
    assert found["exposed copies"] == ["Exposed memory copies take 0.1 ms per rank."]
    assert "GPU idle" not in found


def collectives(*, late: int | None, waits_us: float, ranks: int = 4) -> list[list[Event]]:
    """Each rank computes and then all reduce, 20 times; the late one's kernel begins later.

    Its host launches that late too.
    """
    found = []
    for rank in range(ranks):
        events = []
        for n in range(20):
            at = 1000.0 * n
            delay = waits_us if rank == late or (late is None and n % ranks == rank) else 0.0
            number = 2 * n + 1
            given: dict[str, Any] = {
                "Collective name": "allreduce", "Process Group Ranks": str(list(range(ranks))),
                "Group size": ranks, "In msg nelems": 1000, "dtype": "Float",
            }  # fmt: skip
            reduces = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
            events += [
                traces.launch(ts=at - 2 + delay, correlation=number),
                traces.kernel(ts=at + delay, dur=500, correlation=number),
                traces.launch(ts=at + delay, correlation=number + 1),
                traces.kernel(
                    reduces, ts=at + 500 + delay, dur=100 + waits_us - delay,
                    correlation=number + 1, **given,
                ),
            ]  # fmt: skip
        found.append(events)
    return found


def opened(folder: Path, ranks: list[list[Event]]) -> dict[str, list[str]]:
    for rank, events in enumerate(ranks):
        info = {"rank": rank, "world_size": len(ranks)}
        traces.write(folder / f"rank{rank}.json", *events, distributedInfo=info)
    with traceql.open(folder) as trace:
        return kinds(trace)


def test_one_late_rank_is_named(tmp_path: Path) -> None:
    """20 operations, 200 us late each: the other three wait 4 ms of about 19.8.

    What the late rank did before the first one is not recorded, so 19 of 20 count.
    """
    found = opened(tmp_path, collectives(late=2, waits_us=200))
    assert found["late rank"] == [
        "Rank 2 is late: ranks 0, 1, 3 waited 3.8, 3.8, 3.8 ms in collectives. 100% of the wait "
        "was for rank 2, whose host launched late, which explains 100% of that wait. "
        "The transfers took 1.9 ms per rank."
    ]
    assert "uneven waiting" not in found


@pytest.mark.slow
def test_ranks_that_are_late_in_turns_are_not_blamed(tmp_path: Path) -> None:
    found = opened(tmp_path, collectives(late=None, waits_us=200))
    assert "late rank" not in found
    assert len(found["uneven waiting"]) == 1


@pytest.mark.slow
def test_even_ranks_are_not_mentioned(tmp_path: Path) -> None:
    found = opened(tmp_path, collectives(late=2, waits_us=3))
    assert not {"late rank", "uneven waiting"} & set(found)


def test_hidden_communication_is_not_mentioned(tmp_path: Path) -> None:
    """All-reduces of 40% of the time, each under a running kernel of another stream."""
    ranks = []
    for _ in range(2):
        given: dict[str, Any] = {
            "Collective name": "allreduce", "Process Group Ranks": "[0, 1]", "Group size": 2,
            "In msg nelems": 1000, "dtype": "Float",
        }  # fmt: skip
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        ranks.append(
            [
                event
                for n in range(20)
                for event in (
                    traces.kernel(ts=1000 * n, dur=1000),
                    traces.kernel(name, ts=1000 * n + 300, dur=400, stream=20, **given),
                )
            ]
        )
    assert opened(tmp_path, ranks) == {}


@pytest.mark.slow
def test_one_late_start_is_not_a_late_rank(tmp_path: Path) -> None:
    """Rank 1 joins the first operation 50 ms late; from then on nobody waits."""
    ranks = collectives(late=None, waits_us=0, ranks=2)
    for event in ranks[0]:
        if event["ts"] == 500:
            event["dur"] += 50_000
    for event in ranks[1]:
        if event["ts"] < 600:
            event["ts"] += 50_000
    for events in ranks:
        for event in events:
            if event["ts"] > 600 and event["ts"] < 50_000:
                event["ts"] += 60_000
    found = opened(tmp_path, ranks)
    assert not {"late rank", "uneven waiting"} & set(found)


def test_a_gap_after_the_launch_is_not_laid_on_the_host(tmp_path: Path) -> None:
    """The host launches 40 us after the gap began and copies from then on; 10 ms later it starts.

    The same with the launch at the end of the gap is the host's doing.
    """
    for launched, said in ((1040, True), (10_990, False)):
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
            (sentence,) = kinds(trace)["GPU idle"]
            assert "100% of the idle time has the cause 'host': " in sentence
            assert ("; for 100% the next kernel was already launched" in sentence) == said


@pytest.mark.slow
def test_a_gap_of_half_a_second_is_not_laid_on_the_host() -> None:
    """By the file: launched 40 us into a gap of 493 ms, of 494.5 ms idle time."""
    (sentence,) = kinds(databases.trace("mi300x-sglang"))["GPU idle"]
    assert "; for 100% the next kernel was already launched" in sentence
