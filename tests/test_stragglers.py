"""Why a rank was late: one situation per cause, with every expected number worked out by hand.

Three ranks all-reduce once every 200 us. Each operation belongs to a situation, whose times count
from the end of the operation before, in us:

    0      90                              190   200
    |      | the others begin to wait       | the late rank begins; all end at 200
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from traces import ALL_REDUCE, Event, all_reduce, host, kernel, launch, loaded

import traceql

RANKS = (0, 1, 2)
PERIOD, PUNCTUAL, LATE = 200, 90, 190
MAIN, SIDE, COMM = 7, 8, 20  # streams
COMPUTES = kernel(ts=0, dur=90, stream=MAIN)


def copies(*, ts: float, dur: float) -> Event:
    return kernel("Memcpy DtoD", ts=ts, dur=dur, stream=9, cat="gpu_memcpy")


def other_group(*, ts: float, dur: float) -> Event:
    """An operation with a rank that was not recorded."""
    return all_reduce(ts=ts, dur=dur, ranks=[2, 9], stream=21)


@dataclass(frozen=True)
class Situation:
    """What each rank does before one operation.

    Attributes:
        late_rank: the one that begins 100 us later; None where all begin together.
        launched: when the late rank's host launches the operation; None where this is unknown.
        late: events of the late rank; by default it computes as long as the others.
        others: events of the other ranks.
    """

    name: str
    late: tuple[Event, ...]
    cause: str | None
    excess_us: int = 0
    late_rank: int | None = 2
    launched: float | None = 50
    others: dict[int, tuple[Event, ...]] = field(default_factory=dict)


SITUATIONS = (
    # Nothing is known of the time before the first operation, whatever the rank did in it.
    Situation("first", (kernel(ts=0, dur=190),), "start", 100),
    # Computes for 190 us, the others for 90.
    Situation("kernel", (kernel(ts=0, dur=190),), "kernel", 100),
    Situation("another rank", (kernel(ts=0, dur=190),), "kernel", 100, late_rank=1),
    # 100 us more of computing, of which kernels of another stream than the main one take half ...
    Situation(
        "preemption",
        (COMPUTES, kernel(ts=90, dur=50, stream=SIDE), kernel(ts=140, dur=50)),
        "preemption", 100,
    ),
    # ... and less than half.
    Situation(
        "less than half",
        (COMPUTES, kernel(ts=90, dur=49, stream=SIDE), kernel(ts=139, dur=51)),
        "kernel", 100,
    ),
    # Kernels of another stream under those of the main stream keep it from nothing: 90 us of
    # computing are no more than the others', and 100 us are a gap after the launch.
    Situation("beside", (COMPUTES, kernel(ts=10, dur=60, stream=SIDE)), "launch", 100),
    Situation("copy", (COMPUTES, copies(ts=90, dur=100)), "copy", 100),
    # A copy under a kernel is no time of its own: 30 us are.
    Situation("copy under a kernel", (kernel(ts=0, dur=160), copies(ts=10, dur=180)), "kernel", 70),
    Situation("communication", (COMPUTES, other_group(ts=90, dur=100)), "communication", 100),
    # Launched before the gap, for which nothing else accounts.
    Situation("launch", (COMPUTES,), "launch", 100),
    Situation("launch unknown", (COMPUTES,), "launch", 100, launched=None),
    # The wait was issued after the stream's operation before, and before this one.
    Situation(
        "dependency",
        (COMPUTES, host("cudaStreamWaitEvent", ts=45, dur=2, cat="cuda_runtime")),
        "launch", 100,
    ),
    # The gap of 100 us from 90 on ends with an operation that was launched at 180: the launching
    # thread sorts for 70 us of it, prepares for 20 around that, launches for 5 and is idle for 5.
    Situation(
        "host",
        (COMPUTES, host("prepare", ts=40, dur=140), host("aten::sort", ts=100, dur=70)),
        "host", 100, launched=180,
    ),
    # Blocked for 95 of the 100 us.
    Situation(
        "sync",
        (COMPUTES, host("cudaStreamSynchronize", ts=60, dur=125, cat="cuda_runtime")),
        "host", 100, launched=186,
    ),
    # 60 us of copies and a gap of 40 us that ends with the launch at 185.
    Situation("the largest", (COMPUTES, copies(ts=90, dur=60)), "copy", 60, launched=185),
    # The others compute for 90 and 50 us, 70 in the median, and copy for 0 and 40, 20 in the
    # median: 20 us more of computing, and 80 us more of copies.
    Situation(
        "median of the others",
        (COMPUTES, copies(ts=90, dur=100)),
        "copy", 80, others={1: (kernel(ts=0, dur=50), copies(ts=50, dur=40))},
    ),
    Situation("together", (COMPUTES,), None, late_rank=None),
)  # fmt: skip
NUMBER = {situation.name: number for number, situation in enumerate(SITUATIONS)}


def shifted(event: Event, begin: float) -> Event:
    return event | {"ts": event["ts"] + begin}


def events_of(rank: int) -> list[Event]:
    events: list[Event] = []
    for number, situation in enumerate(SITUATIONS):
        begin = 1_000 + PERIOD * number
        is_late = rank == situation.late_rank
        own = situation.late if is_late else situation.others.get(rank, (COMPUTES,))
        arrives = LATE if is_late else PUNCTUAL
        operation = all_reduce(ts=arrives, dur=PERIOD - arrives, ranks=RANKS, stream=COMM)
        if is_late and situation.launched is not None:
            correlation = number + 1
            operation["args"]["correlation"] = correlation
            own = (*own, launch(ts=situation.launched, dur=5, correlation=correlation))
        events += [shifted(event, begin) for event in (*own, operation)]
    return events


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[traceql.Trace]:
    folder = tmp_path_factory.mktemp("stragglers")
    with loaded(folder, *(events_of(rank) for rank in RANKS)) as opened:
        yield opened


def straggler(trace: traceql.Trace, situation: Situation) -> list[tuple[Any, ...]]:
    rows = trace.select(
        """
        SELECT
            straggler.* EXCLUDE (match_id, kernel_id), kernel.name, kernel.rank AS on_rank,
            kernel.ts - (SELECT MIN(ts) FROM slice) AS ts
        FROM straggler INNER JOIN kernel ON straggler.kernel_id = kernel.id
        WHERE match_id = $match_id
        """,
        {"match_id": NUMBER[situation.name]},
    )
    return [tuple(row.values()) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_cause_is_what_the_late_rank_did_more_of(
    situation: Situation, trace: traceql.Trace
) -> None:
    if situation.late_rank is None:
        assert straggler(trace, situation) == []
        return
    step = None if situation.launched is None else situation.late_rank  # each rank is one step
    begins = 1_000 * (PERIOD * NUMBER[situation.name] + LATE)  # the first kernel begins at 0
    assert straggler(trace, situation) == [
        (
            situation.late_rank, step, 100_000, 200_000, situation.cause,
            1_000 * situation.excess_us, ALL_REDUCE, situation.late_rank, begins,
        )
    ]  # fmt: skip


@pytest.mark.slow
def test_a_rank_that_did_no_more_than_the_others_is_late_for_an_unknown_cause(
    tmp_path: Path,
) -> None:
    """Both ranks compute for 790 us, but rank 1 leaves the operation before 100 us later; us:

            fourth operation   computes   fifth operation
    Rank 0  3000..3110         ..3900     ..4110, of which 100 are waiting
    Rank 1  3000..3210         ..4000     ..4110
    """
    both = (0, 1)
    ranks = []
    for end in (3_110, 3_210):
        events = [
            event
            for begin in (0, 1_000, 2_000, 5_000, 6_000, 7_000)
            for event in (
                all_reduce(ts=begin, dur=110, ranks=both, stream=COMM),
                kernel(ts=begin + 110, dur=890, stream=MAIN),
            )
        ]
        events += [
            all_reduce(ts=3_000, dur=end - 3_000, ranks=both, stream=COMM),
            kernel(ts=end, dur=790, stream=MAIN),
            all_reduce(ts=end + 790, dur=4_110 - end - 790, ranks=both, stream=COMM),
            kernel(ts=4_110, dur=890, stream=MAIN),
        ]
        ranks.append(events)
    with loaded(tmp_path, *ranks) as trace:
        (row,) = trace.select("SELECT * EXCLUDE (kernel_id) FROM straggler").rows()
        assert tuple(row.values()) == (4, 1, None, 100_000, 100_000, "unknown", 0)


# --- comm.stragglers -----------------------------------------------------------------------------


WAITED = [one for one in SITUATIONS if one.late_rank is not None]
DOING = {"host": ("aten::sort", 70.0), "sync": ("cudaStreamSynchronize", 95.0)}


def test_without_launch_calls_why_a_rank_was_idle_is_unknown(tmp_path: Path) -> None:
    """Rank 1 is idle for 100 us before each operation; no call says when it was launched."""
    ranks = []
    for rank in (0, 1):
        events = []
        for n in range(6):
            begin = 500 * n + 100 * rank
            events.append(kernel(ts=500 * n - 50, dur=50))
            events.append(all_reduce(ts=begin, dur=200 - 100 * rank, ranks=(0, 1), stream=20))
        ranks.append(events)
    with loaded(tmp_path, *ranks) as trace:
        causes = {row["cause"] for row in trace.sql("SELECT cause FROM internal.straggler").rows()}
    assert causes <= {"start", "unknown"}
    assert "unknown" in causes


def expected_row(situation: Situation) -> dict[str, Any]:
    number = NUMBER[situation.name]
    doing, doing_pct = DOING.get(situation.name, (None, None))
    return {
        "rank": situation.late_rank, "phase": None, "role": None, "cause": situation.cause,
        "wait_ns": 200_000, "share_pct": 100 / len(WAITED), "operations": 1, "late_ns": 100_000,
        "excess_ns": 1_000 * situation.excess_us, "doing": doing, "doing_pct": doing_pct,
        "op": "all_reduce", "layer": None, "number": None if situation.launched is None else 0,
        "ts": 1_000 * (PERIOD * number + LATE), "match_id": number,
    }  # fmt: skip


def test_operations_of_comm_stragglers(trace: traceql.Trace) -> None:
    """Every operation costs the other two ranks 200 us together, so they stand in their order."""
    expected = [expected_row(one) for one in WAITED]
    assert trace.run("comm.stragglers", by="operation").rows() == expected
    assert trace.run("comm.stragglers", by="operation", limit=3).rows() == expected[:3]
    (alone,) = trace.run("comm.stragglers", by="operation", rank=1).rows()
    assert alone == expected_row(SITUATIONS[NUMBER["another rank"]]) | {"share_pct": 100}


def test_comm_stragglers_sums_up_what_has_one_rank_and_cause(trace: traceql.Trace) -> None:
    """These operations have no role. The first of the costliest is the example."""
    of_cause: dict[tuple[int | None, str | None], list[Situation]] = {}
    for one in WAITED:
        of_cause.setdefault((one.late_rank, one.cause), []).append(one)
    expected = [
        expected_row(alike[0])
        | {
            "wait_ns": 200_000 * len(alike),
            "share_pct": pytest.approx(100 * len(alike) / len(WAITED)),
            "operations": len(alike),
            "excess_ns": sum(1_000 * one.excess_us for one in alike),
        }
        for alike in of_cause.values()
    ]
    found = trace.run("comm.stragglers").rows()
    assert found == sorted(expected, key=lambda row: (-row["wait_ns"], row["match_id"]))
