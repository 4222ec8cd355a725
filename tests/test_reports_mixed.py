"""Situations of real files, mixed at random: ranks, windows, times, waits and causes are right."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import traces
from adding_up import Query, steps_add_up, steps_in_turn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from merging import LABELS, Trace, merged
from simulated_run import Activity, Call, Clock, Gap, Rank, Step, gaps, simulated

import traceql
from traceql.readers.contract import ReadMode

UNESCAPED = 'compile(<eval "a\\d">)'
BEGIN = 10**12  # us since the base time of the profiler
LOST, UNTIMED = "launches without a recorded kernel", "activities with impossible times"
EARLY, DRIFT = "kernels before their launch", "drift of the GPU clock"
LATE = "kernels after the host waited for them"
# How the GPU's clock differs from that of its host, the check that fails, and one that may.
GPU_CLOCKS = {
    "early": (Clock(-3000), EARLY, None),
    "ever earlier": (Clock(-3000, -0.01), EARLY, DRIFT),
    "late": (Clock(5000), LATE, None),
    "drift": (Clock(0, 0.001), DRIFT, LATE),
}
LEAST = 5  # operations with which clocks of ranks are compared


class Fault(NamedTuple):
    """What is wrong with a rank.

    Attributes:
        kernel: LOST or UNTIMED, if that is what became of one kernel.
        place: of that kernel among those of the rank.
        gpu: a key of GPU_CLOCKS.
    """

    kernel: str | None
    place: int
    gpu: str | None


@dataclass(frozen=True)
class Situation:
    """What was recorded, and how it is in files.

    Attributes:
        clocks: those of the hosts of ranks.
        merge: how a program merged the ranks into one file; None for a file of each rank.
        names: of the files of ranks.
        order: in which ranks are merged or written.
        has_jobs: whether files have distributedInfo.
        is_numbered: whether operations have a number.
        front_end: whether the file of a front end lies beside them.
        pairs: whether host events are begins and ends.
        is_escaped: whether names of host events are.
    """

    steps: list[Step]
    faults: list[Fault]
    clocks: list[Clock]
    merge: str | None
    names: str
    order: list[int]
    has_jobs: bool
    is_numbered: bool
    front_end: bool
    pairs: bool
    is_escaped: bool
    reader: ReadMode

    @cached_property
    def ranks(self) -> list["Recorded"]:
        made = simulated(len(self.faults), self.steps)
        return [
            Recorded(number, rank, clock, fault)
            for number, (rank, clock, fault) in enumerate(
                zip(made, self.clocks, self.faults, strict=True)
            )
        ]


class Kernel(NamedTuple):
    """A kernel that the file has, by the clock of its rank, ns since the run began."""

    one: Activity
    ts: int
    end_ts: int


@dataclass(frozen=True)
class Recorded:
    """A rank, and its faults."""

    number: int
    did: Rank
    clock: Clock
    fault: Fault

    @cached_property
    def damaged(self) -> Activity | None:
        """The kernel that was lost or not timed."""
        did = self.did.activities
        return did[self.fault.place % len(did)] if self.fault.kernel else None

    def device(self, one: Activity) -> int:
        return 2 * self.number + one.is_second

    def gpu_ns(self, us: int) -> int:
        error = GPU_CLOCKS[self.fault.gpu][0] if self.fault.gpu else Clock()
        return self.clock.ns(us) + error.ns(us) - 1000 * us

    @cached_property
    def devices(self) -> dict[int, list[Kernel]]:
        """The kernels with times of each device."""
        found: dict[int, list[Kernel]] = {}
        for one in self.did.activities:
            if one is not self.damaged:
                kernel = Kernel(one, self.gpu_ns(one.ts), self.gpu_ns(one.end_ts))
                found.setdefault(self.device(one), []).append(kernel)
        return dict(sorted(found.items()))

    def gaps(self, device: int) -> Iterator[Gap]:
        """Each gap of a device, with the causes that it may have."""
        kernels = [kernel.one for kernel in self.devices[device]]
        for ts, end_ts, causes in gaps(kernels, self.did.waits):
            own = {"unknown"} if self.fault.gpu else causes
            if self.damaged:
                own |= {"not recorded"}
                near = [one for one in self.neighbours(device) if one.stream == self.damaged.stream]
                ran_here = self.device(self.damaged) == device and near
                if ran_here and self.damaged.ts < end_ts and self.damaged.end_ts > ts:
                    own = {"not recorded"}
            yield Gap(self.gpu_ns(ts), self.gpu_ns(end_ts), frozenset(own))

    def neighbours(self, device: int) -> list[Activity]:
        """What was launched on a device just before and just after the damaged kernel."""
        number = self.damaged.correlation if self.damaged else 0
        others = [kernel.one for kernel in self.devices[device]]
        before = [one for one in others if one.correlation < number][-1:]
        return before + [one for one in others if one.correlation > number][:1]

    @property
    def failing(self) -> set[str]:
        """Checks that fail."""
        clock = {GPU_CLOCKS[self.fault.gpu][1]} if self.fault.gpu else set()
        return clock | ({self.fault.kernel} if self.fault.kernel else set())

    @property
    def perhaps_failing(self) -> set[str]:
        also = GPU_CLOCKS[self.fault.gpu][2] if self.fault.gpu else None
        return self.failing | ({also} if also else set())


calls = st.lists(
    st.builds(
        Call, st.sampled_from([1, 4, 30, 90]), st.integers(1, 60), st.sampled_from([7, 21]),
        st.sampled_from([False, False, True]),
    ),
    max_size=4,
)  # fmt: skip
FIRST = Call(20, 30, 7)  # so that each rank has a kernel of its first device in its first step
MANY = [Call(1000, 2, 7)] * 160  # show a drift of clocks
faults = st.builds(
    Fault,
    st.sampled_from([None, None, LOST, UNTIMED]),
    st.integers(0, 50),
    st.sampled_from([None, None, *GPU_CLOCKS]),
)
clocks = st.builds(Clock, st.sampled_from([0, 40, 250, -400]), st.sampled_from([0, 0, 2e-5]))


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    number = draw(st.sampled_from([1, 2, 2, 3, 4, 11]))
    wrong = draw(st.lists(faults, min_size=number, max_size=number))
    operations = draw(st.sampled_from([0, 1, 2, 3])) if number > 1 else 0
    steps = [
        Step(
            draw(st.lists(calls, min_size=number, max_size=number)),
            operations,
            draw(st.lists(st.booleans(), min_size=number, max_size=number)),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    first = [[FIRST, FIRST, *own] for own in steps[0].calls]
    if any(fault.gpu == "drift" for fault in wrong):
        first = [[*MANY, *own] for own in first]
    steps[0] = Step(first, operations, steps[0].is_awaited)
    return Situation(
        steps=[on_one_device(step, wrong) for step in steps],
        faults=wrong,
        clocks=draw(st.lists(clocks, min_size=number, max_size=number)),
        merge=draw(st.sampled_from([None, *LABELS])),
        names=draw(st.sampled_from(["1795-TP-{}.trace.json", "rank{}.json", "trace_{}.json"])),
        order=draw(st.permutations(range(number))),
        has_jobs=draw(st.booleans()),
        is_numbered=draw(st.booleans()),
        front_end=draw(st.booleans()),
        pairs=draw(st.booleans()),
        is_escaped=draw(st.booleans()),
        reader=draw(st.sampled_from([ReadMode.PERFETTO, ReadMode.STREAM])),
    )


def on_one_device(step: Step, wrong: list[Fault]) -> Step:
    """Which of several devices a host waited for is unknown, and so is whether a clock is late."""
    own = [
        [call._replace(is_second=call.is_second and fault.gpu != "late") for call in of]
        for of, fault in zip(step.calls, wrong, strict=True)
    ]
    return Step(own, step.operations, step.is_awaited)


# --- files -------------------------------------------------------------------------------------


def in_us(ns: int) -> float:
    return BEGIN + ns / 1000


def host_event(situation: Situation, event: Trace, pid: int) -> list[Trace]:
    whole = event | {"pid": pid}
    if not situation.pairs:
        return [whole]
    end = {key: whole[key] for key in ("name", "pid", "tid")}
    end |= {"ph": "E", "ts": whole["ts"] + whole["dur"]}
    return [{key: whole[key] for key in whole if key != "dur"} | {"ph": "B"}, end]


def trace_of(situation: Situation, rank: Recorded) -> Trace:
    pid, did, ns = 4000 + rank.number, rank.did, rank.clock.ns
    ranks = range(len(situation.ranks))

    def times(ts: int, end_ts: int) -> dict[str, Any]:
        return {"ts": in_us(ns(ts)), "dur": (ns(end_ts) - ns(ts)) / 1000}

    events = host_event(situation, traces.host(UNESCAPED, **times(-50, -10)), pid)
    for number, (begin, end) in enumerate(did.steps):
        annotation = traces.step(**times(begin, end), generation=(number + 1, number + 1))
        events += host_event(situation, annotation, pid)
    for begin, end in did.waits:
        wait = traces.host("cudaDeviceSynchronize", **times(begin, end), cat="cuda_runtime")
        events.append(wait | {"pid": pid})
    for one in did.activities:
        begun = times(one.call_ts, one.call_ts + 1)
        events.append(traces.launch(**begun, correlation=one.correlation) | {"pid": pid})
        if one is rank.damaged and rank.fault.kernel == LOST:
            continue
        first, last = rank.gpu_ns(one.ts), rank.gpu_ns(one.end_ts)
        run: dict[str, Any] = {
            "ts": in_us(first), "dur": (last - first) / 1000, "stream": one.stream,
            "device": rank.device(one), "correlation": one.correlation,
        }  # fmt: skip
        if one is rank.damaged:
            run |= {"ts": 0, "dur": 0}
        if one.operation is None:
            events.append(traces.kernel(**run))
        else:
            numbered = {"Seq": one.operation} if situation.is_numbered else {}
            events.append(traces.all_reduce(**run, ranks=ranks, **numbered))
    job = {"rank": rank.number, "world_size": len(ranks)}
    return {"traceEvents": events} | ({"distributedInfo": job} if situation.has_jobs else {})


def write(situation: Situation, folder: Path) -> None:
    files = {}
    ranks = {rank: trace_of(situation, situation.ranks[rank]) for rank in situation.order}
    if situation.merge:
        files["merged.json"] = merged(ranks, LABELS[situation.merge])
    else:
        files = {situation.names.format(rank): trace for rank, trace in ranks.items()}
    if situation.front_end:
        events = host_event(situation, traces.host("generate", ts=BEGIN + 500, dur=40), 99)
        files["host_99.async_llm.1795.pt.trace.json"] = {"traceEvents": events}
    for name, trace in files.items():
        text = json.dumps(trace)
        if not situation.is_escaped:
            text = text.replace(json.dumps(UNESCAPED), f'"{UNESCAPED}"')
        (folder / name).write_text(text)


# --- what must hold ----------------------------------------------------------------------------


def union(spans: list[tuple[int, int]]) -> int:
    """The time in which any of the spans is open, ns."""
    total, until = 0, min((first for first, _ in spans), default=0)
    for first, last in sorted(spans):
        total += max(0, last - max(first, until))
        until = max(until, last)
    return total


def devices(situation: Situation) -> list[tuple[Any, ...]]:
    """Rank, device, number of kernels, window, computing, exposed communication and idle time."""
    found: list[tuple[Any, ...]] = []
    for rank in situation.ranks:
        for device, kernels in rank.devices.items():
            spans = [(kernel.ts, kernel.end_ts) for kernel in kernels]
            work = [(k.ts, k.end_ts) for k in kernels if k.one.operation is None]
            window = max(end for _, end in spans) - min(ts for ts, _ in spans)
            computing, busy = union(work), union(spans)
            number = len(kernels)
            found.append(
                (rank.number, device, number, window, computing, busy - computing, window - busy)
            )
    return found


DEVICES = """
    WITH counted AS (
        SELECT rank, device, COUNT(*) AS kernels FROM kernel WHERE ts IS NOT NULL GROUP BY ALL
    )
    SELECT
        rank, device, kernels, SUM(dur),
        COALESCE(SUM(dur) FILTER (part = 'computing'), 0),
        COALESCE(SUM(dur) FILTER (part LIKE 'exposed%'), 0),
        COALESCE(SUM(dur) FILTER (part = 'idle'), 0)
    FROM device_timeline INNER JOIN counted USING (rank, device)
    GROUP BY ALL ORDER BY ALL
"""
OPERATIONS = """
    SELECT
        collective.rank, launch.correlation, match_id, ranks_found, wait_ns, uncertainty_ns,
        reliable IS TRUE
    FROM collective
    INNER JOIN kernel ON kernel_id = kernel.id
    INNER JOIN launch ON launch_id = launch.id
    ORDER BY ALL
"""


def require_ranks(situation: Situation, rows: Query) -> None:
    number = len(situation.ranks)
    hosts = [(None, None)] * situation.front_end
    assert rows("SELECT rank, world_size FROM trace ORDER BY rank NULLS LAST") == [
        *((rank, number) for rank in range(number)), *hosts
    ]  # fmt: skip
    names = rows("SELECT COUNT(*) FROM slice WHERE name LIKE 'compile(<eval %'")
    assert names == [(number,)]


def require_times(situation: Situation, rows: Query) -> None:
    """Windows, steps and gaps."""
    assert rows(DEVICES) == devices(situation)
    steps_add_up(rows)
    # All ranks have one base time.
    first = {rank.number: rank.clock.ns(rank.did.activities[0].call_ts) for rank in situation.ranks}
    found = rows("SELECT rank, MIN(ts) FROM launch GROUP BY rank ORDER BY rank")
    (base,) = {first[rank] - ts for rank, ts in found}
    steps, idle = [], []
    for rank in situation.ranks:
        for device, kernels in rank.devices.items():
            of_step: dict[int, list[Kernel]] = {}
            for kernel in sorted(kernels, key=lambda kernel: kernel.one.step):
                of_step.setdefault(kernel.one.step, []).append(kernel)
            spans = [(min(k.ts for k in of), max(k.end_ts for k in of)) for of in of_step.values()]
            for number, (ts, dur) in zip(of_step, steps_in_turn(spans), strict=True):
                steps.append((rank.number, device, number, ts - base, dur))
            for gap in rank.gaps(device):
                idle.append((rank.number, device, gap.ts - base, gap.end_ts - gap.ts, gap.causes))
    assert steps == rows(
        "SELECT rank, device, number, gpu_ts, gpu_dur FROM step WHERE gpu_ts IS NOT NULL "
        "ORDER BY rank, device, number"
    )
    causes = rows("SELECT rank, device, ts, dur, cause FROM gap ORDER BY ALL")
    assert [row[:4] for row in causes] == [row[:4] for row in idle]
    wrong = [(own, row[4]) for own, row in zip(causes, idle, strict=True) if own[4] not in row[4]]
    assert wrong == []


def require_waits(situation: Situation, rows: Query) -> None:
    """No two operations are taken for one, and what is called reliable is right."""
    done: dict[int, dict[int, Activity]] = {}
    for rank in situation.ranks:
        for one in rank.did.activities:
            if one.operation is not None:
                done.setdefault(one.operation, {})[rank.number] = one
    number_of = {
        (rank, one.correlation): number for number, of in done.items() for rank, one in of.items()
    }
    matched: dict[int, set[int]] = {}
    waits = 0
    for rank, correlation, match_id, _, wait_ns, uncertainty_ns, is_reliable in rows(OPERATIONS):
        number = number_of[rank, correlation]
        if match_id is not None:
            matched.setdefault(match_id, set()).add(number)
        if wait_ns is not None and is_reliable:
            waits += 1
            arrival = max(one.ts for one in done[number].values())
            wait = 1000 * (arrival - done[number][rank].ts)
            by_clocks = 2_000 + wait * max(map(drift_of, situation.faults))
            assert abs(wait_ns - wait) <= uncertainty_ns + by_clocks, (rank, correlation)
    assert all(len(numbers) == 1 for numbers in matched.values())
    if len(done) >= LEAST and all(
        fault == Fault(None, fault.place, None) for fault in situation.faults
    ):
        assert waits == len(number_of)


def drift_of(fault: Fault) -> float:
    """By how much the GPU's clock makes times too long or too short, as a share."""
    return abs(GPU_CLOCKS[fault.gpu][0].drift) if fault.gpu else 0


def require_findings(situation: Situation, run: traceql.Run) -> None:
    found = {row["cause"] for row in run.query("overview.findings").rows()}
    assert ("broken_ledger" in found) == any(rank.failing for rank in situation.ranks)


def require_right(situation: Situation, *, with_findings: bool) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "traces").mkdir()
        write(situation, folder / "traces")
        database = folder / "run.duckdb"
        loaded = traceql.load(folder / "traces", database, reader=situation.reader)
        run = traceql.open(loaded.database)

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return run.select(sql).fetchall()

        require_ranks(situation, rows)
        require_times(situation, rows)
        require_waits(situation, rows)
        for rank in situation.ranks:
            failed = {
                name
                for (name,) in rows(
                    f"SELECT check_name FROM ledger WHERE NOT ok AND rank = {rank.number}"
                )
            }
            assert rank.failing <= failed <= rank.perhaps_failing
        if with_findings:
            require_findings(situation, run)


TOGETHER = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # an example takes a second
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@settings(TOGETHER, max_examples=6)
@given(situations())
def test_mixed_situations(situation: Situation) -> None:
    require_right(situation, with_findings=False)


@settings(TOGETHER, max_examples=100)
@given(situations())
def test_many_mixed_situations(situation: Situation) -> None:
    require_right(situation, with_findings=True)
