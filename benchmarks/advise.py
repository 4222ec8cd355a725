"""How well `traceql advise` predicts another layout: recordings from recordings of fewer ranks.

    python benchmarks/advise.py BASE... --target RUN... [--peaks FILE]

BASE and RUN are databases, run directories or folders of traces. The most frequent decode step of
each target is predicted from each base, without a look at the target, and from the defaults that
count where nothing was recorded. Communication is that of the base and of the list of known costs,
or of the measured sizes in FILE. Busy time is computing and communication; waiting and idle time,
which are the host's and differ from start to start, are printed beside it. Stages are added up.
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import traceql
from traceql.plan.advise.layouts import Layout, decode
from traceql.plan.advise.machine import machine_named, with_points
from traceql.plan.advise.prediction import StepTime, step_time
from traceql.plan.advise.role_times import DefaultTimes, RecordedTimes, recording

_LAYOUT = "SELECT tp_size AS tp, pp_size AS pp FROM layout ORDER BY rank LIMIT 1"
_SPREAD = "SELECT ep FROM run"
# Of the first rank of each stage, the steps of the most frequent size.
_STEP = """
    WITH usual AS (
        SELECT class.*
        FROM step_class AS class
        INNER JOIN layout USING (rank)
        WHERE layout.tp_rank = 0 AND class.phase = 'decode'
        QUALIFY ROW_NUMBER() OVER (PARTITION BY rank ORDER BY steps DESC, batch DESC) = 1
    )
    SELECT
        ANY_VALUE(usual.batch) AS batch,
        CAST(round(ANY_VALUE(usual.kv_tokens / usual.batch)) AS BIGINT) AS length,
        SUM(spent.ns) FILTER (spent.part = 'computing') AS computing,
        COALESCE(SUM(spent.ns) FILTER (spent.part = 'exposed_transfer'), 0) AS communication,
        COALESCE(SUM(spent.ns) FILTER (spent.part = 'exposed_wait'), 0) AS waiting,
        COALESCE(SUM(spent.ns) FILTER (spent.part = 'idle'), 0) AS idle
    FROM usual
    INNER JOIN step_class_time AS spent USING (class_id)
"""


@dataclass(frozen=True)
class Measured:
    """The usual decode step of a recording, ns."""

    name: str
    layout: Layout
    batch: int
    length: int | None
    computing: float
    communication: float
    waiting: float
    idle: float

    @property
    def busy(self) -> float:
        return self.computing + self.communication


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bases", nargs="+", type=Path)
    parser.add_argument("--target", dest="targets", nargs="+", type=Path, required=True)
    parser.add_argument("--peaks", type=Path, action="append", default=[])
    parser.add_argument("--context", type=int, default=515, help="where KV lengths are unknown")
    options = parser.parse_args()
    targets = [_measured(path) for path in options.targets]
    deviations: list[float] = []
    for path in options.bases:
        with traceql.open(path) as trace:
            base = recording(trace)
            machine = with_points(machine_named(base.device_name, options.peaks), base.points)
            evidence = RecordedTimes(base, base.model, machine)
            for measured in targets:
                load = decode(measured.batch, measured.length or options.context)
                step, usual = (
                    step_time(base.model, measured.layout, load, times, machine.collectives)
                    for times in (evidence, DefaultTimes(base.model, machine))
                )
                assert step
                assert usual
                deviations.append(_busy(step) / measured.busy - 1)
                print(f"{_name(path)} -> {_told(measured, step, usual)}")
    sizes = [100 * abs(one) for one in deviations]
    print(
        f"busy time, {len(sizes)} pairs: median {statistics.median(sizes):.1f}%, "
        f"worst {max(sizes):.1f}%"
    )


def _measured(path: Path) -> Measured:
    with traceql.open(path) as trace:
        (layout,), (row,) = trace.select(_LAYOUT).rows(), trace.select(_STEP).rows()
        spread = any(run["ep"] for run in trace.select(_SPREAD))
    return Measured(_name(path), Layout(**layout, ep=spread), **row)


def _busy(step: StepTime) -> float:
    return step.computing_ns + step.communication_ns


def _told(measured: Measured, step: StepTime, usual: StepTime) -> str:
    pairs: Sequence[tuple[str, float, float]] = (
        ("computing", measured.computing, step.computing_ns),
        ("communication", measured.communication, step.communication_ns),
        ("busy", measured.busy, _busy(step)),
        ("idle", measured.idle, step.idle_ns),
    )
    parts = [f"{name} {ns / 1e3:.0f} us, predicted {by / 1e3:.0f}" for name, ns, by in pairs]
    deviation = 100 * (_busy(step) / measured.busy - 1)
    return (
        f"{measured.name}, {measured.layout}, {measured.batch} requests: {'; '.join(parts)}; "
        f"waiting {measured.waiting / 1e3:.0f} us; busy {deviation:+.1f}%; "
        f"measured / defaults {measured.busy / _busy(usual):.2f}"
    )


def _name(path: Path) -> str:
    return "/".join(path.parts[-2:])


if __name__ == "__main__":
    main()
