"""Which kernels a role ran before, and which it runs now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceql.runs.compare.comparison import Comparison

_USES = """
    SELECT
        scope,
        role,
        side,
        LIST({'name': name, 'kernels': kernels, 'ns': ns} ORDER BY ns DESC, name) AS kernels
    FROM kernel_use
    GROUP BY scope, role, side
    ORDER BY scope, role, side
"""


@dataclass(frozen=True)
class Use:
    """A kernel that a role runs.

    Attributes:
        name: its name.
        kernels: number of launches in a step.
        ns: their duration in a step, ns.
    """

    name: str
    kernels: float
    ns: float


@dataclass(frozen=True)
class KernelChange:
    """The kernels of a role that differ between the sides.

    Attributes:
        gone: those that only base runs, the longest first.
        came: those that only new runs.
    """

    gone: tuple[Use, ...]
    came: tuple[Use, ...]


def kernel_changes(comparison: Comparison) -> dict[tuple[str, str], KernelChange]:
    """What differs, by scope and role; roles that run the same kernels are left out."""
    uses: dict[tuple[str, str], dict[str, list[Use]]] = {}
    for row in comparison.table(_USES):
        kernels = [Use(**kernel) for kernel in row["kernels"]]
        uses.setdefault((row["scope"], row["role"]), {})[row["side"]] = kernels
    changes = {key: _change(sides) for key, sides in uses.items()}
    return {key: change for key, change in changes.items() if change.gone or change.came}


def _change(sides: Mapping[str, Sequence[Use]]) -> KernelChange:
    base, new = sides.get("base", ()), sides.get("new", ())
    names = [{use.name for use in side} for side in (base, new)]
    return KernelChange(
        tuple(use for use in base if use.name not in names[1]),
        tuple(use for use in new if use.name not in names[0]),
    )
