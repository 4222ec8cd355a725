"""Hosts that launch kernels on queues of GPUs, step by step; what ran is known exactly.

All times are us since the run began, by one clock, until `Clock` converts them to those of a rank.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

START_US = 5  # from the beginning of a launch to the start of its kernel, if its stream is free
ARRIVED_US = 12  # an operation of several ranks takes this long once all have begun it
COMM_STREAM = 25


class Call(NamedTuple):
    """A launch: host time before it, and how long and where its kernel runs."""

    host_us: int
    dur: int
    stream: int
    is_second: bool = False  # on the second device of the process


@dataclass(frozen=True)
class Step:
    """What an iteration launches.

    Attributes:
        calls: those of each rank.
        operations: how many collectives of all ranks follow.
        is_awaited: of each rank, whether the host waits for its devices before the next step.
    """

    calls: Sequence[Sequence[Call]]
    operations: int
    is_awaited: Sequence[bool]


@dataclass(frozen=True)
class Activity:
    """A kernel that ran; `operation` numbers the collectives of the run."""

    correlation: int
    step: int
    call_ts: int
    ts: int
    dur: int
    stream: int
    is_second: bool
    operation: int | None = None

    @property
    def end_ts(self) -> int:
        return self.ts + self.dur


@dataclass
class Rank:
    """What a rank did: activities, spans of steps on its host, and waits for its devices."""

    activities: list[Activity] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    now: int = 0
    free: dict[tuple[int, bool], int] = field(default_factory=dict)  # when each stream is

    def begun(self, call: Call) -> int:
        """When the kernel of a call starts, which the host makes now."""
        self.now += call.host_us
        return max(self.now + START_US, self.free.get((call.stream, call.is_second), 0))

    def run(self, call: Call, ts: int, end_ts: int, operation: int | None = None) -> None:
        number = len(self.activities) + 1
        self.free[call.stream, call.is_second] = end_ts
        self.activities.append(
            Activity(
                number, len(self.steps), self.now, ts, end_ts - ts, call.stream, call.is_second,
                operation,
            )
        )  # fmt: skip
        self.now += 1

    def wait(self) -> None:
        end = max(self.now + 2, *self.free.values()) + 1
        self.waits.append((self.now, end))
        self.now = end


def simulated(ranks: int, steps: Sequence[Step]) -> list[Rank]:
    """The ranks of a run, each of whose hosts waits for its devices at the end."""
    made = [Rank() for _ in range(ranks)]
    operations = iter(range(10**6))
    for number, step in enumerate(steps):
        begins = [rank.now for rank in made]
        for rank, calls in zip(made, step.calls, strict=True):
            for call in calls:
                ts = rank.begun(call)
                rank.run(call, ts, ts + call.dur)
        for _ in range(step.operations):
            _collective(made, next(operations))
        is_last = number + 1 == len(steps)
        for rank, begin, awaits in zip(made, begins, step.is_awaited, strict=True):
            if awaits or is_last:
                rank.wait()
            rank.steps.append((begin, rank.now))
            rank.now += 2
    return made


def _collective(ranks: Sequence[Rank], operation: int) -> None:
    """All ranks end it together, a while after the last one has begun."""
    call = Call(2, 0, COMM_STREAM)
    begun = [rank.begun(call) for rank in ranks]
    for rank, ts in zip(ranks, begun, strict=True):
        rank.run(call, ts, max(begun) + ARRIVED_US, operation)


class Clock(NamedTuple):
    """A clock that is ahead by offset_us, and by drift x the time since the run began."""

    offset_us: int = 0
    drift: float = 0

    def ns(self, us: int) -> int:
        """The time by this clock, ns since the run began by a right one."""
        return round((us + self.offset_us + self.drift * us) * 1000)


class Gap(NamedTuple):
    """An interval of a device in which nothing ran, by the clock of the rank, ns."""

    ts: int
    end_ts: int
    causes: frozenset[str]  # of gap.cause


def gaps(kernels: Sequence[Activity], waits: Sequence[tuple[int, int]]) -> Iterator[Gap]:
    """The gaps between kernels of a device, of which all are recorded and the clocks agree; us."""
    reached = min(one.ts for one in kernels)
    for ts in sorted({one.ts for one in kernels}):
        if ts > reached:
            causes = {cause(one.call_ts, reached, ts, waits) for one in kernels if one.ts == ts}
            yield Gap(reached, ts, frozenset(causes))
        reached = max(reached, *(one.end_ts for one in kernels if one.ts == ts))


def cause(call_ts: int, ts: int, end_ts: int, waits: Sequence[tuple[int, int]]) -> str:
    """Why a device did nothing from ts until the kernel of a call began, at end_ts."""
    if call_ts <= ts:
        return "launch"
    issued = min(call_ts, end_ts)
    blocked = sum(max(0, min(last, issued) - max(first, ts)) for first, last in waits)
    return "sync" if 2 * blocked >= issued - ts else "host"
