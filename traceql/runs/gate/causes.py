"""What made a step longer: the largest parts of its waterfall."""

from traceql.runs.compare import Comparison
from traceql.runs.gate.criterion import Criterion
from traceql.runs.gate.metrics import ALL_PHASES, Metric
from traceql.runs.gate.outcome import Cause

_MOST = 3
_LEAST_SHARE = 0.01  # of the largest
_MOST_KERNELS = 2  # of each side
_WATERFALL = """
    SELECT part, role, cause, delta_ns
    FROM waterfall
    WHERE scope = $scope AND delta_ns > 0
    ORDER BY delta_ns DESC, part, role, cause
"""
_KERNELS = """
    SELECT name
    FROM kernel_use
    WHERE scope = $scope AND side = $side AND role = $role
    ORDER BY ns DESC, name
    LIMIT $limit
"""


def causes_of(comparison: Comparison, criterion: Criterion) -> tuple[Cause, ...]:
    """The parts of the step that got longest, of those that the metric of a criterion is about."""
    scope = criterion.scope or ALL_PHASES
    rows = [
        row
        for row in comparison.table(_WATERFALL, scope=scope)
        if _is_about(criterion.metric, row["part"], row["role"], row["cause"])
    ]
    return tuple(
        Cause(
            row["part"],
            row["role"],
            row["cause"],
            row["delta_ns"],
            _kernels(comparison, scope, "base", row["role"]),
            _kernels(comparison, scope, "new", row["role"]),
        )
        for row in rows[:_MOST]
        if row["delta_ns"] >= _LEAST_SHARE * rows[0]["delta_ns"]
    )


def _is_about(metric: Metric, part: str, role: str | None, cause: str | None) -> bool:
    name = metric.name
    if metric.kind == "role":  # without waiting
        return role in name.split("+") and part != "exposed_wait"
    if name == "busy":
        return part not in ("exposed_wait", "idle", "other_step", "median_less_mean")
    if metric.kind == "part":
        is_comm = name == "exposed_comm" and part.startswith("exposed_") and part != "exposed_copy"
        return is_comm or name in (part, f"{part}.{cause}")
    return True


def _kernels(comparison: Comparison, scope: str, side: str, role: str | None) -> tuple[str, ...]:
    if role is None:
        return ()
    rows = comparison.table(_KERNELS, scope=scope, side=side, role=role, limit=_MOST_KERNELS)
    return tuple(row["name"] for row in rows)
