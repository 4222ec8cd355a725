"""By how much a prediction may be wrong: what the same method was found to err by, at worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from traceql.plan.advise.layouts import Layout
from traceql.plan.advise.role_times import Evidence
from traceql.plan.advise.step_time import StepTime

# Worst errors of predicted steps, percent; docs/advise.md and docs/definitions.md ("What if").
_OTHER_BATCH = 11.0
_OTHER_TP = 12.5
_OTHER_GPU = 15.0
_NOT_CHECKED = 25.0  # stages, spread experts: nothing or one recording to check them with
_DEFAULTS_ABOVE = 1.5  # an allowance: recorded decode steps took 0.89 to 0.97 of the defaults


@dataclass(frozen=True)
class Spread:
    """The least and the most that a time may be, in relation to the predicted time."""

    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{100 * (self.low - 1):+.0f}% to {100 * (self.high - 1):+.0f}%"


@dataclass(frozen=True)
class MeasuredErrors:
    """Predicted / measured - 1 of the points of each layout that were measured."""

    by_layout: Mapping[Layout, Sequence[float]] = field(default_factory=dict)

    def counting_for(self, layout: Layout) -> Sequence[float]:
        """Those of the layout; if it was not measured, of all."""
        every = [error for errors in self.by_layout.values() for error in errors]
        return self.by_layout.get(layout, every)

    def worst_pct(self, layout: Layout) -> float | None:
        """The largest that counts for the layout; None if nothing was measured."""
        return max((100 * abs(error) for error in self.counting_for(layout)), default=None)


NOT_MEASURED = MeasuredErrors()


def spread_of(
    evidence: Evidence, layout: Layout, step: StepTime, errors: MeasuredErrors = NOT_MEASURED
) -> Spread:
    """That of a prediction, no less than the errors that were found where points were measured.

    Without a recording and without a measured point of the layout, it reaches from the floor to
    what the slowest step took.
    """
    if not evidence.is_recorded and layout not in errors.by_layout:
        usual = Spread(min(1.0, step.least_ns / step.ns), _DEFAULTS_ABOVE)
    else:
        share = max(_OTHER_BATCH, evidence.error_pct, *_changes(evidence, layout)) / 100
        usual = Spread(1 / (1 + share), 1 + share)
    return _with_errors(usual, errors.counting_for(layout))


def _with_errors(usual: Spread, errors: Sequence[float]) -> Spread:
    """Also as wide as the largest error, and so wide that each measured time is within it."""
    worst = max(map(abs, errors), default=0.0)
    measured = [1 / (1 + error) for error in errors]
    return Spread(min(usual.low, 1 / (1 + worst), *measured), max(usual.high, 1 + worst, *measured))


def _changes(evidence: Evidence, layout: Layout) -> list[float]:
    """The errors of what differs from the recording."""
    found = [0.0]
    if not evidence.is_recorded:
        return found
    if layout.tp != evidence.recorded_tp:
        found.append(_OTHER_TP)
    if evidence.is_elsewhere:
        found.append(_OTHER_GPU)
    if layout.pp > 1 or (layout.ep and layout.dp > 1):
        found.append(_NOT_CHECKED)
    return found
