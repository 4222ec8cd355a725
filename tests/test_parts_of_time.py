"""The parts of a device's time with waiting, and lost time with its root cause."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import databases
import pytest
from databases import cases
from derived import ACTIVITIES, Connection, Row, Tables, answer, rows
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from traces import ALL_REDUCE

from traceql.sql.query import catalog

PARTS = {
    "computing": "computing_ns",
    "exposed_transfer": "exposed_transfer_ns",
    "exposed_unmatched": "exposed_unmatched_ns",
    "exposed_wait": "exposed_wait_ns",
    "exposed_copy": "exposed_copy_ns",
    "idle": "idle_ns",
}
WITH_WAITING = (
    "qwen3-32b-tp4-graph-nccl", "qwen3-8b-tp2-eager-stack-4layers", "qwen3-30b-a3b-tp4-ep-graph",
    "qwen3-8b-pp2-graph", databases.SERVING,
)  # fmt: skip


# --- by counting single nanoseconds --------------------------------------------------------------

DECODE_BEGINS = 20  # before, there is the prefill step


class Activity(NamedTuple):
    """An activity on the GPU of one rank; times in ns.

    Attributes:
        what: compute, copy, or the sequence number of an all-reduce of the two ranks.
        launch_ts: when the host launches it; None where this is not in the trace.
    """

    rank: int
    what: str | int
    ts: int
    dur: int
    stream: int
    launch_ts: int | None

    @property
    def phase(self) -> str | None:
        if self.launch_ts is None:
            return None
        return "prefill" if self.launch_ts < DECODE_BEGINS else "decode"


TIMES = (st.integers(0, 40), st.integers(0, 14))  # start and duration
LAUNCH = st.none() | st.integers(0, 45)
SINGLE = st.builds(
    Activity, st.integers(0, 1), st.sampled_from(["compute", "copy"]), *TIMES, st.integers(0, 1),
    LAUNCH,
)  # fmt: skip
# An all-reduce on rank 0, and on rank 1 unless that did not record it.
REDUCED = st.tuples(
    st.tuples(*TIMES, LAUNCH), st.none() | st.tuples(*TIMES, LAUNCH), st.integers(2, 3)
)


@st.composite
def activities(draw: st.DrawFn) -> list[Activity]:
    found = draw(st.lists(SINGLE, max_size=6))
    for number, (*ranks, stream) in enumerate(draw(st.lists(REDUCED, min_size=1, max_size=4))):
        for rank, drawn in enumerate(ranks):
            if drawn is not None:
                ts, dur, launch_ts = drawn
                found.append(Activity(rank, number, ts, dur, stream, launch_ts))
    return draw(st.permutations(found))


class Instant(NamedTuple):
    """What one nanosecond of a rank counts for."""

    part: str
    is_overlapped: bool
    phase: str | None
    root_phase: str | None  # of the late rank's operation, while waiting


def wait_ns(one: Activity, every: Sequence[Activity]) -> int | None:
    """How long an all-reduce waits; None unless both ranks have it."""
    starts = [other.ts for other in every if other.what == one.what]
    return min(one.dur, max(starts) - one.ts) if len(starts) == 2 else None


def instants(rank: int, every: Sequence[Activity]) -> list[Instant]:
    """Each nanosecond from the first start to the last end of an activity of a rank."""
    own = [(one.ts, number, one) for number, one in enumerate(every) if one.rank == rank]
    in_order = [one for *_, one in sorted(own, key=lambda place: place[:2])]
    first = min(one.ts for one in in_order)
    last = max(one.ts + one.dur for one in in_order)
    return [instant(t, in_order, every) for t in range(first, last)]


def instant(t: int, own: Sequence[Activity], every: Sequence[Activity]) -> Instant:
    """What a nanosecond counts for; `own` are the rank's activities in the order of starts."""
    running = [one for one in own if one.ts <= t < one.ts + one.dur]
    reducing = [one for one in running if isinstance(one.what, int)]
    waiting = []
    kinds = {one.what for one in running if isinstance(one.what, str)}
    for one in reducing:
        wait = wait_ns(one, every)
        if wait is None:
            kinds.add("exposed_unmatched")
        elif t < one.ts + wait:
            kinds.add("exposed_wait")
            waiting.append(one)
        else:
            kinds.add("exposed_transfer")
    names = {"compute": "computing", "copy": "exposed_copy"}
    kinds = {names.get(kind, kind) for kind in kinds}
    part = next((part for part in PARTS if part in kinds), "idle")
    begun = [one for one in own if one.ts <= t]
    phase = begun[-1].phase if part != "idle" else gap_phase(t, own, every)
    if phase is not None:
        phase = next((of for of, (begin, end) in spans(own).items() if begin <= t < end), phase)
    root = None
    if part == "exposed_wait":
        (root,) = (o for o in every if o.what == waiting[-1].what and o.rank != waiting[-1].rank)
    return Instant(
        part, part == "computing" and bool(reducing), phase, root.phase if root else None
    )


def spans(own: Sequence[Activity]) -> dict[str, tuple[int, int]]:
    """The GPU time of each step; that of the decode step begins when the other one has ended."""
    found, reached = {}, 0
    for phase in ("prefill", "decode"):
        of_step = [one for one in own if one.phase == phase]
        if of_step:
            begin = max(reached, min(one.ts for one in of_step))
            reached = max(reached, *(one.ts + one.dur for one in of_step))
            found[phase] = (begin, reached)
    return found


def gap_phase(t: int, own: Sequence[Activity], every: Sequence[Activity]) -> str | None:
    """The phase of the activity that ends a gap, or else of the one before it."""
    following = min((one for one in own if one.ts > t), key=lambda one: one.ts)
    begins = max(one.ts + one.dur for one in own if one.ts + one.dur <= t)
    before = [one for one in every if one.rank == own[0].rank and one.ts + one.dur == begins]
    return following.phase or before[-1].phase


# Rank 0 waits from 0 to 18 for the decode step of rank 1, and in between, from 5 to 6, in another
# operation for its prefill step.
WAITS_AGAIN_AFTER_A_SHORT_ONE = [
    Activity(0, 0, 0, 20, 2, 0), Activity(1, 0, 18, 2, 2, 30),
    Activity(0, 1, 5, 3, 3, 0), Activity(1, 1, 6, 2, 3, 0),
]  # fmt: skip


@cache
def tables() -> Tables:
    return Tables()


def filled(every: Sequence[Activity]) -> Connection:
    """Their database; the id of an activity is its position."""
    found = tables()
    found.clear()
    found.con.execute(
        "INSERT INTO trace (rank, dialect, world_size) VALUES (0, 'pytorch', 2), (1, 'pytorch', 2)"
    )
    slices: list[Row] = []
    names = {"compute": ("kernel", "nvjet_sm90_gemm"), "copy": ("gpu_memcpy", "Memcpy DtoD")}
    for number, one in enumerate(every):
        cat, name = names[one.what] if isinstance(one.what, str) else ("kernel", ALL_REDUCE)
        described = {
            "Collective name": "allreduce", "Process Group Ranks": "[0, 1]", "Group size": 2,
            "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float", "Seq": one.what,
        }  # fmt: skip
        args = json.dumps(described) if isinstance(one.what, int) else None
        place = (0, one.stream, one.stream)
        slices.append((number, one.rank, cat, name, one.ts, one.dur, *place, number + 1, args))
        if one.launch_ts is not None:
            call = ("cuda_runtime", "cudaLaunchKernel", one.launch_ts, 0, 100, 100, 100)
            slices.append((1000 + number, one.rank, *call, number + 1, None))
    for rank in (0, 1):
        for number, (ts, name) in enumerate(
            (
                (0, "execute_context_1(8)_generation_0(0)"),
                (DECODE_BEGINS, "execute_context_0(0)_generation_1(1)"),
            )
        ):
            annotation = (rank, "user_annotation", name, ts, 1, 100, 101, 101, None, None)
            slices.append((2000 + 2 * rank + number, *annotation))
    found.con.executemany(
        """
        INSERT INTO slice
        SELECT id, rank, cat, name, ts, dur, pid, tid, track, NULL, 0, NULL, correlation, args
        FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
            AS t (id, rank, cat, name, ts, dur, pid, tid, track, correlation, args)
        """,
        slices,
    )
    found.con.execute(ACTIVITIES)
    return found


def part_rows(counted: Counter[str], overlapped: int) -> dict[str, int | None]:
    """The columns of time.breakdown for so many nanoseconds of each part."""
    expected: dict[str, int | None] = {PARTS[part]: counted[part] for part in PARTS}
    waited, transferred = counted["exposed_wait"], counted["exposed_transfer"]
    unmatched = counted["exposed_unmatched"]
    if not unmatched:
        expected["exposed_unmatched_ns"] = None
    elif not waited + transferred:
        expected["exposed_wait_ns"] = expected["exposed_transfer_ns"] = None
    return expected | {
        "window_ns": counted.total(),
        "exposed_comm_ns": waited + transferred + unmatched,
        "overlap_ns": overlapped,
    }


def breakdown(con: Connection, **parameters: Any) -> Iterator[dict[str, Any]]:
    columns = [column.name for column in catalog()["time.breakdown"].head.columns]
    for row in answer(con, "time.breakdown", **parameters):
        yield dict(zip(columns, row, strict=True))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(activities())
@example(WAITS_AGAIN_AFTER_A_SHORT_ONE)
def test_each_nanosecond_counts_for_one_part_and_one_root(every: list[Activity]) -> None:
    # Nothing is known of a rank whose GPU did nothing.
    assume(all(any(one.rank == rank and one.dur for one in every) for rank in (0, 1)))
    con = filled(every)
    found = {row["rank"]: row for row in breakdown(con)}
    by_phase = {(row["rank"], row["phase"]): row for row in breakdown(con, by="phase")}
    phases = set()
    for rank in (0, 1):
        counted = instants(rank, every)
        for phase in (None, "prefill", "decode"):
            of_phase = [one for one in counted if one.phase == phase]
            if of_phase:
                phases.add((rank, phase))
                assert_row(by_phase[rank, phase], of_phase)
        assert_row(found[rank], counted)
        lost = Counter(
            (one.part, one.root_phase if one.part == "exposed_wait" else one.phase)
            for one in counted
            if one.part in ("idle", "exposed_wait")
        )
        assert lost == Counter(dict(lost_by_root(con, rank)))
    assert by_phase.keys() == phases


def assert_row(row: dict[str, Any], counted: Sequence[Instant]) -> None:
    expected = part_rows(
        Counter(one.part for one in counted), sum(one.is_overlapped for one in counted)
    )
    assert {name: row[name] for name in expected} == expected


def lost_by_root(con: Connection, rank: int) -> Iterator[tuple[tuple[str, str | None], int]]:
    """Lost time of a rank by its part and the phase of the root's step."""
    for part, phase, root_is_other, ns in rows(
        con,
        f"""
        SELECT part, step.phase, BOOL_AND(root_rank <> lost_time.rank), SUM(ns)
        FROM lost_time LEFT JOIN step ON root_step_id = step.step_id
        WHERE lost_time.rank = {rank}
        GROUP BY ALL
        """,
    ):
        assert root_is_other == (part == "exposed_wait")
        yield (part, phase), ns


# --- on real runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("run", cases(databases.SHORT))
def test_lost_time_is_idle_time_and_waiting(run: str) -> None:
    trace = databases.trace(run)
    lost = {
        (row["rank"], row["part"]): row["ns"]
        for row in trace.sql("SELECT rank, part, SUM(ns) AS ns FROM lost_time GROUP BY ALL")
    }
    total = 0
    for row in trace.run("time.breakdown"):
        assert lost.pop((row["rank"], "idle"), 0) == row["idle_ns"]
        assert lost.pop((row["rank"], "exposed_wait"), 0) == (row["exposed_wait_ns"] or 0)
        total += row["idle_ns"] + (row["exposed_wait_ns"] or 0)
    assert lost == {}
    found = trace.run("time.lost", limit=1_000_000).rows()
    assert sum(row["lost_ns"] for row in found) == total
    assert all(row["lost_ns"] == row["idle_ns"] + row["wait_ns"] for row in found)
    assert sum(row["idle_ns"] for row in found) == sum(
        row["idle_ns"] for row in trace.run("time.breakdown")
    )


@pytest.mark.parametrize("run", cases(databases.SHORT))
def test_cause_of_lost_time_is_that_of_the_gap(run: str) -> None:
    """But for gaps whose next kernel had been launched in their first half."""
    trace = databases.trace(run)
    expected: Counter[tuple[int, int | None, str]] = Counter()
    for gap in trace.run("idle.gaps", limit=10_000_000):
        early = 2 * (gap["launched_ns"] or 0) > gap["dur"]
        is_host = gap["cause"] in ("host", "sync") and not early
        cause = "launch" if gap["cause"] in ("host", "sync") and early else gap["cause"]
        assert is_host == (cause in ("host", "sync"))
        expected[gap["rank"], gap["step_id"], cause] += gap["dur"]
    found = trace.sql(
        "SELECT root_rank, root_step_id, cause, SUM(ns) AS ns FROM lost_time "
        "WHERE part = 'idle' GROUP BY ALL"
    )
    assert {(r["root_rank"], r["root_step_id"], r["cause"]): r["ns"] for r in found} == expected


@pytest.mark.parametrize("run", cases(list(WITH_WAITING)))
def test_waiting_is_blamed_on_the_straggler(run: str) -> None:
    """At most one operation of a rank runs at a time, so that exposed waiting is that of the
    operations; but between pipeline stages, some run at once.
    """
    trace = databases.trace(run)
    expected: Counter[tuple[Any, ...]] = Counter()
    waits = trace.select(
        """
        SELECT
            kernel.rank, collective.op, collective.uncertainty_ns, kernel.dur,
            collective_exposure.exposed_wait_ns AS ns,
            straggler.rank AS late_rank, straggler.step_id, straggler.cause
        FROM collective
        INNER JOIN collective_exposure USING (kernel_id)
        INNER JOIN kernel ON collective.kernel_id = kernel.id
        LEFT JOIN straggler USING (match_id)
        WHERE collective_exposure.exposed_wait_ns > 0
        """
    )
    between_stages = run == "qwen3-8b-pp2-graph"
    for wait in waits:
        cause = wait["cause"] or "unknown"
        if wait["uncertainty_ns"] is None or wait["uncertainty_ns"] > wait["dur"]:
            cause = "clock"
        if between_stages and wait["op"] in ("send", "recv", "broadcast"):
            cause = "pipeline"
        expected[wait["rank"], wait["late_rank"], wait["step_id"], cause] += wait["ns"]
    rows_found = trace.sql(
        "SELECT rank, root_rank, root_step_id, cause, SUM(ns) AS ns FROM lost_time "
        "WHERE part = 'exposed_wait' GROUP BY ALL"
    )
    found = {tuple(row.values())[:4]: row["ns"] for row in rows_found}
    if between_stages:
        assert found.keys() == expected.keys()
        assert all(0.99 * ns < found[where] <= ns for where, ns in expected.items())
    else:
        assert found == expected
