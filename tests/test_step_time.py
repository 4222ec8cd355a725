"""Where each nanosecond of a step's GPU span went, against an account kept in plain Python."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

import databases
import pytest
from databases import SHORT, cases
from derived import Row, database, rows
from hypothesis import assume, given, settings
from test_parts_of_time import Activity, activities, filled
from traces import kernel, launch, step

pytestmark = pytest.mark.slow

ORDER = ("computing", "exposed_transfer", "exposed_unmatched", "exposed_wait", "exposed_copy")
COPIES = ("memcpy", "memset")
Ask = Callable[[str], Sequence[Row]]  # the rows of a statement
Account = Counter[tuple[Any, ...]]  # ns by device, step, part, role, layer and cause


class Work(NamedTuple):
    """An activity on a GPU, or the part of an operation in which it waits or transfers."""

    ts: int
    id: int
    end_ts: int
    part: str
    step_id: int | None
    role: str | None
    layer: int | None


class Gap(NamedTuple):
    ts: int
    end_ts: int
    cause: str


@dataclass
class Running:
    """What runs at an instant, the latest first; what has ended is dropped when it is found."""

    heaps: dict[str, list[tuple[int, int, Work]]] = field(
        default_factory=lambda: {part: [] for part in ORDER}
    )

    def begin(self, work: Work) -> None:
        heappush(self.heaps[work.part], (-work.ts, -work.id, work))

    def at(self, instant: int) -> Work | None:
        for heap in self.heaps.values():
            while heap and heap[0][2].end_ts <= instant:
                heappop(heap)
            if heap:
                return heap[0][2]
        return None


def account(ask: Ask) -> Account:
    """All rows of step_time, from the rows of kernel, collective, gap and step alone."""
    found: Account = Counter()
    for rank, device in ask("SELECT DISTINCT rank, device FROM kernel"):
        place = f"rank = {rank} AND device = {device}"
        found += of_device(device, list(works(ask, place)), gaps(ask, place), spans(ask, place))
    return found


def works(ask: Ask, place: str) -> Iterator[Work]:
    of_kernel = ask(
        f"""
        SELECT kernel.id, ts, ts + dur AS end_ts, category, kernel.step_id, role, layer, wait_ns
        FROM (FROM kernel WHERE {place}) AS kernel
        LEFT JOIN collective ON kernel.id = kernel_id
        """,
    )
    for number, ts, end_ts, category, *known, wait_ns in of_kernel:
        if category != "collective":
            part = "exposed_copy" if category in COPIES else "computing"
            yield Work(ts, number, end_ts, part, *known)
        elif wait_ns is None:
            yield Work(ts, number, end_ts, "exposed_unmatched", *known)
        else:
            yield Work(ts, number, ts + wait_ns, "exposed_wait", *known)
            yield Work(ts + wait_ns, number, end_ts, "exposed_transfer", *known)


def gaps(ask: Ask, place: str) -> list[Gap]:
    found = ask(f"SELECT ts, ts + dur AS end_ts, cause FROM gap WHERE {place} ORDER BY ts")
    return [Gap(*gap) for gap in found]


def spans(ask: Ask, place: str) -> dict[int, tuple[int, int]]:
    """The GPU span of each step that has a kernel on the device."""
    found = ask(
        f"""
        SELECT step_id, gpu_ts, gpu_ts + gpu_dur AS end_ts FROM step
        WHERE step_id IN (SELECT step_id FROM kernel WHERE {place})
        """
    )
    return {step_id: (begin, end) for step_id, begin, end in found}


def of_device(
    device: int,
    works: Sequence[Work],
    gaps: Sequence[Gap],
    spans: dict[int, tuple[int, int]],
) -> Account:
    edges = {edge for span in spans.values() for edge in span}
    for intervals in (works, gaps):
        edges |= {edge for one in intervals for edge in (one.ts, one.end_ts)}
    to_begin, idle = sorted(works, reverse=True), list(reversed(gaps))
    to_enter = sorted(((begin, number) for number, (begin, _) in spans.items()), reverse=True)
    running, inside, found = Running(), set[int](), Account()
    for now, then in pairwise(sorted(edges)):
        while to_begin and to_begin[-1].ts <= now:
            running.begin(to_begin.pop())
        while to_enter and to_enter[-1][0] <= now:
            inside.add(to_enter.pop()[1])
        inside -= {number for number in inside if spans[number][1] <= now}
        while idle and idle[-1].end_ts <= now:
            idle.pop()
        work = running.at(now)
        for number in inside:
            if work is None:
                what: tuple[Any, ...] = ("idle", None, None, idle[-1].cause)
            elif work.step_id == number:
                what = (work.part, work.role, work.layer, None)
            else:
                what = ("other_step", None, None, None)
            found[(device, number, *what)] += then - now
    return found


def step_time(ask: Ask) -> Account:
    found: Account = Counter()
    for *where, ns in ask("SELECT device, step_id, part, role, layer, cause, ns FROM step_time"):
        assert tuple(where) not in found
        found[tuple(where)] = ns
    return found


# --- on made-up activities -----------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(activities())
def test_each_nanosecond_of_a_gpu_span_is_in_one_row(every: list[Activity]) -> None:
    """Of kernels on two streams, steps whose spans overlap, and kernels of no step."""
    assume(all(any(one.rank == rank and one.dur for one in every) for rank in (0, 1)))
    ask = partial(rows, filled(every))
    assert step_time(ask) == account(ask)
    adds_up(ask)
    names_its_kernels(ask)


def names_its_kernels(ask: Ask) -> None:
    """Each interval of device_timeline has the kernel that decides its part."""
    for rank, device in ask("SELECT DISTINCT rank, device FROM kernel"):
        place = f"rank = {rank} AND device = {device}"
        to_begin, running = sorted(works(ask, place), reverse=True), Running()
        for ts, *found in ask(
            f"SELECT ts, part, kernel_id FROM device_timeline WHERE {place} ORDER BY ts"
        ):
            while to_begin and to_begin[-1].ts <= ts:
                running.begin(to_begin.pop())
            work = running.at(ts)
            assert found == ([work.part, work.id] if work else ["idle", None])


def adds_up(ask: Ask) -> None:
    assert not ask(
        """
        SELECT place.step_id, place.device, ANY_VALUE(gpu_dur) AS gpu_dur, SUM(ns) AS ns
        FROM (SELECT DISTINCT step_id, device FROM kernel WHERE step_id IS NOT NULL) AS place
        JOIN step USING (step_id)
        LEFT JOIN step_time ON step_time.step_id = place.step_id AND step_time.device = place.device
        GROUP BY ALL
        HAVING COALESCE(SUM(ns), 0) <> ANY_VALUE(gpu_dur)
        """,
    )


# --- of events in words --------------------------------------------------------------------------


def test_each_device_has_its_own_step() -> None:
    con = database(
        step(ts=0, dur=5, context=(1, 8)),
        launch(ts=1, correlation=1),
        launch(ts=2, correlation=2),
        kernel(ts=10, dur=10, correlation=1, device=0),
        kernel(ts=15, dur=25, correlation=2, device=1),
        kernel(ts=18, dur=1, device=2),
    )
    assert rows(con, "SELECT device, number, gpu_ts, gpu_dur FROM step ORDER BY step_id") == [
        (0, 0, 10_000, 10_000),
        (1, 0, 15_000, 25_000),
    ]
    assert rows(con, "SELECT device, part, cause, ns FROM step_time ORDER BY ALL") == [
        (0, "computing", None, 10_000),
        (1, "computing", None, 25_000),
    ]


# --- on real runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("run", cases(SHORT))
def test_account_of_a_real_run_is_the_same(run: str) -> None:
    trace = databases.trace(run)

    def ask(sql: str) -> list[Row]:
        return [tuple(row.values()) for row in trace.select(sql)]

    assert step_time(ask) == account(ask)
    adds_up(ask)
    names_its_kernels(ask)
