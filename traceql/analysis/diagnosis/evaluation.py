"""Decides every cause from its evidence, and gives each lost nanosecond to at most one.

The savings follow three rules.

- Each unit of time (table time_unit) is granted once: causes take it in the order of the catalogue,
  the specific before the general, and only as much as is left of it.
- Time is stated per step, as the mean over ranks and devices. The profiler makes the host slower
  and leaves kernels as they are. So lost time is scaled to the run without the profiler where that
  was measured: by (unprofiled step - busy time) / (profiled step - busy time).
- low and high are two standard errors of the mean over the steps away. Where the run without the
  profiler was not measured, low of lost time is LEAST_SHARE of it: so much was left in recordings
  where it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from traceql.analysis.diagnosis.catalog import SEVERITIES, Cause

# Of the unprofiled step: a saving of that much is severe, or notable; the same of throughput.
SEVERE_PCT, NOTABLE_PCT = 10, 2
SEVERE_GAIN_PCT, NOTABLE_GAIN_PCT = 20, 5
LEAST_GRANTED = 0.02  # of what a cause claims; with less, others explain it
FEWEST_SAMPLES = 10  # fewer observations prove nothing
# Six recordings with planted causes: the profiler left 37% to 84% of what was lost with it.
LEAST_SHARE = 0.35

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """The time of the run, in units that causes claim.

    Attributes:
        ns: their durations, in the order of time_unit.unit.
        is_lost: whether no kernel computes or moves data in it.
        number: the step that the time belongs to, as a number from 0; -1 outside of steps.
        steps: how many steps each rank has.
        devices: how many devices all ranks have together.
        step_ns: the mean duration of a step without the profiler where measured, else with it.
        scale: what remains of lost time without the profiler; NaN if that was not measured.
    """

    ns: Floats
    is_lost: npt.NDArray[np.bool_]
    number: Ints
    steps: int
    devices: int
    step_ns: float
    scale: float

    @property
    def lost_scale(self) -> float:
        return 1.0 if np.isnan(self.scale) else self.scale

    def per_step(self, ns: Floats) -> float:
        """The mean per step and device, without the profiler, of a part of each unit."""
        scaled = np.where(self.is_lost, ns * self.lost_scale, ns)
        return float(scaled.sum()) / max(1, self.steps * self.devices)

    def error(self, ns: Floats) -> float:
        """The standard error of `per_step`, from the differences between steps."""
        within = self.number >= 0
        if self.steps < 2 or not within.any():
            return 0.0
        scaled = np.where(self.is_lost, ns * self.lost_scale, ns)[within]
        sums = np.zeros(max(self.steps, int(self.number.max()) + 1))
        np.add.at(sums, self.number[within], scaled / self.devices)
        return float(sums.std(ddof=1) / np.sqrt(len(sums)))


@dataclass
class Decision:
    """A cause with its state and what ending it saves.

    Attributes:
        state: confirmed, ruled out or undecided.
        reason: what rules it out, or what is missing; None where it is confirmed.
        saving_ns: per step, with low_ns and high_ns; None if it is not a time, or not known.
        explained_ns: what it explains of the time lost per step.
    """

    cause: Cause
    row: Mapping[str, Any]
    state: str
    reason: str | None
    saving_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    explained_ns: float = 0.0
    severity: str | None = None
    saving_pct: float | None = None
    granted: Floats = field(default_factory=lambda: np.zeros(1), repr=False)  # of each unit


def decisions(
    known: Mapping[str, Cause], rows: Mapping[str, Mapping[str, Any]], units: Units
) -> Iterator[Decision]:
    """Every cause of the catalogue with its state, in the order in which time is granted.

    Args:
        known: the causes in that order.
        rows: the row of each; causes without a row are undecided.
    """
    left = units.ns.copy()
    confirmed: dict[str, Decision] = {}
    for name, cause in known.items():
        row = rows.get(name)
        decision = _state(cause, row, confirmed)
        if decision.state == "confirmed":
            decision = _granted(decision, left, units, confirmed)
        if decision.state == "confirmed":
            _rate(decision, units)
            if decision.severity != "remark":
                confirmed[name] = decision
        yield decision


def _state(
    cause: Cause, row: Mapping[str, Any] | None, confirmed: Mapping[str, Decision]
) -> Decision:
    if row is None:
        return Decision(cause, {}, "undecided", cause.record)
    if row["is_confirmed"] is None:
        return Decision(cause, row, "undecided", row.get("reason") or cause.record)
    if not row["is_confirmed"]:
        return Decision(cause, row, "ruled out", row.get("reason"))
    other = next((confirmed[name] for name in cause.unless if name in confirmed), None)
    if other is not None:
        return _explained_by(other, cause, row)
    return Decision(cause, row, "confirmed", None)


def _explained_by(other: Decision, cause: Cause, row: Mapping[str, Any]) -> Decision:
    reason = f"explained by {other.cause.name} ({other.cause.title})"
    return Decision(cause, row, "ruled out", reason)


def _granted(
    decision: Decision, left: Floats, units: Units, confirmed: Mapping[str, Decision]
) -> Decision:
    """Takes what a cause claims of each unit, as far as it is left.

    A cause that gets next to nothing, because others explain the time that it claims, is ruled out.
    """
    claims = decision.row.get("claims")
    if claims is None:
        return decision
    claimed = np.zeros_like(left)
    np.add.at(claimed, *claims)
    np.clip(claimed, 0, units.ns, out=claimed)
    granted = np.minimum(claimed, left)
    if confirmed and granted.sum() < LEAST_GRANTED * claimed.sum():
        most = max(confirmed.values(), key=lambda one: np.minimum(one.granted, claimed).sum())
        return _explained_by(most, decision.cause, decision.row)
    left -= granted
    decision.granted = granted
    lost = units.per_step(np.where(units.is_lost, granted, 0.0))
    decision.explained_ns = lost
    if decision.cause.group == "recording":  # without the profiler, nothing of it is lost
        return decision
    saving, error = units.per_step(granted), 2 * units.error(granted)
    least = decision.row.get("least_share")
    share = 1.0 if least is None else float(least)
    share *= LEAST_SHARE if np.isnan(units.scale) else 1.0
    decision.saving_ns = saving
    decision.low_ns = max(0.0, saving - lost * (1 - share) - error)
    decision.high_ns = saving + error
    return decision


def _rate(decision: Decision, units: Units) -> None:
    """Severity follows the saving; few samples are never severe."""
    row = decision.row
    if row.get("saving_ns") is not None:
        direct = min(float(row["saving_ns"]), units.step_ns)
        decision.saving_ns = (decision.saving_ns or 0.0) + direct
        decision.low_ns = (decision.low_ns or 0.0) + direct / 2
        decision.high_ns = (decision.high_ns or 0.0) + direct
    share = 0.0
    if decision.saving_ns is not None and units.step_ns > 0:
        share = decision.saving_pct = min(100.0, 100 * decision.saving_ns / units.step_ns)
    gain = row.get("gain_pct") or 0.0
    if row.get("is_remark"):
        decision.severity = "remark"
    elif row.get("is_severe") or share >= SEVERE_PCT or gain >= SEVERE_GAIN_PCT:
        decision.severity = "severe"
    elif share >= NOTABLE_PCT or gain >= NOTABLE_GAIN_PCT or row.get("is_notable"):
        decision.severity = "notable"
    else:
        decision.severity = "remark"
    samples = row.get("samples")
    most = decision.cause.most
    if samples is not None and samples < FEWEST_SAMPLES:
        most = max(most, "notable", key=SEVERITIES.index)
    decision.severity = max(decision.severity, most, key=SEVERITIES.index)


def explained_share(found: Sequence[Decision], units: Units) -> tuple[float, float]:
    """The time lost per step, ns, and the share of it that confirmed causes explain, 0 to 1."""
    lost = units.per_step(np.where(units.is_lost, units.ns, 0.0))
    explained = sum(one.explained_ns for one in found if one.state == "confirmed")
    return lost, explained / lost if lost else 0.0
