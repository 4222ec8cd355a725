"""The metrics that a gate knows: metrics.csv."""

from csv import DictReader
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("metrics.csv")
PHASES = ("prefill", "decode", "mixed", "idle", "unknown")  # of the column unit.phase
ALL_PHASES = "all"
SCOPES = (ALL_PHASES, *PHASES)


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: as in the table change.
        kind: step, part, role, latency or rate.
    """

    name: str
    kind: str

    @property
    def has_scope(self) -> bool:
        """Whether steps of one phase have a value of their own."""
        return self.kind not in ("latency", "rate")

    @property
    def more_is_better(self) -> bool:
        return self.kind == "rate"


@cache
def metrics() -> dict[str, Metric]:
    """All metrics, by name."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        return {row["metric"]: Metric(row["metric"], row["kind"]) for row in DictReader(file)}


def metric_named(name: str) -> Metric | None:
    """The metric; None if there is none. Roles that one kernel has together are joined by `+`."""
    known = metrics()
    if name in known:
        return known[name]
    roles = name.split("+")
    is_group = len(roles) == 2 and all(
        role in known and known[role].kind == "role" for role in roles
    )
    return Metric(name, "role") if is_group else None
