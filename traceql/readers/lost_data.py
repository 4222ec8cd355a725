"""Whether the trace processor reports that it lost data or met errors.

`statistics.csv` says which of its statistics mean loss, and why; the first pattern that fits a
name decides. A statistic that is not there means loss if the trace processor calls it an error or
a loss.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from traceql.errors import LossyLoad
from traceql.readers.trace_processor import Engine, arrow_table

_RULES = Path(__file__).with_name("statistics.csv")
# A statistic may have several rows, such as one per buffer.
_STATISTICS = """
    SELECT name, MAX(severity) AS severity, SUM(value) AS value
    FROM stats
    WHERE value > 0
    GROUP BY name
    ORDER BY name
"""
_SEVERE = {"error", "data_loss"}


class Effect(StrEnum):
    """What a statistic that is not zero means for the slices of a trace."""

    LOST = "lost"  # the file may hold slices that the trace processor does not return, or in part
    RECORDING = "recording"  # slices were lost before they were in the file
    NONE = "none"


@dataclass(frozen=True)
class Losses:
    """The statistics that mean loss and are not zero, by name."""

    lost: Mapping[str, int]
    recording: Mapping[str, int]


def losses(tp: Engine) -> Losses:
    """What the trace processor says about the trace that it has loaded."""
    found: dict[Effect, dict[str, int]] = {effect: {} for effect in Effect}
    for row in arrow_table(tp, _STATISTICS).to_pylist():
        found[effect_of(row["name"], row["severity"])][row["name"]] = row["value"]
    return Losses(found[Effect.LOST], found[Effect.RECORDING])


def effect_of(name: str, severity: str) -> Effect:
    """What a statistic of this name and severity means if it is not zero."""
    by_default = Effect.LOST if severity in _SEVERE else Effect.NONE
    return rule_of(name) or by_default


def rule_of(name: str) -> Effect | None:
    """What `statistics.csv` says about a statistic; None if nothing."""
    return next((effect for pattern, effect in _rules() if fnmatchcase(name, pattern)), None)


def listed(statistics: Mapping[str, int]) -> str:
    """The statistics in a text: `a=1, b=2`."""
    return ", ".join(f"{name}={value}" for name, value in statistics.items())


def require_no_losses(tp: Engine) -> None:
    """Raises LossyLoad unless the trace processor took all that it was fed, which reading made."""
    found = losses(tp)
    if lost := dict(found.lost) | dict(found.recording):
        raise LossyLoad(
            f"the trace processor lost data of a normalized trace ({listed(lost)}), "
            "which is an error of traceql; report it with the trace"
        )


@cache
def _rules() -> list[tuple[str, Effect]]:
    with _RULES.open(encoding="utf-8", newline="") as file:
        return [(row["pattern"], Effect(row["effect"])) for row in csv.DictReader(file)]
