"""By how much a prediction may be wrong: what the same method was found to err by, at worst."""

from dataclasses import dataclass

from traceql.advise.layouts import Layout
from traceql.advise.role_times import Evidence
from traceql.advise.step_time import StepTime

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


def spread_of(evidence: Evidence, layout: Layout, step: StepTime) -> Spread:
    """That of a prediction; without a recording, from the floor to what the slowest step took."""
    if not evidence.is_recorded:
        return Spread(min(1.0, step.least_ns / step.ns), _DEFAULTS_ABOVE)
    share = max(_OTHER_BATCH, evidence.error_pct, *_changes(evidence, layout)) / 100
    return Spread(1 / (1 + share), 1 + share)


def _changes(evidence: Evidence, layout: Layout) -> list[float]:
    """The errors of what differs from the recording."""
    found = [0.0]
    if layout.tp != evidence.recorded_tp:
        found.append(_OTHER_TP)
    if evidence.is_elsewhere:
        found.append(_OTHER_GPU)
    if layout.pp > 1 or (layout.ep and layout.dp > 1):
        found.append(_NOT_CHECKED)
    return found
