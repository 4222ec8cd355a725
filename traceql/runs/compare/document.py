"""A comparison as one JSON document, and the kernels that each role ran on both sides."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceql.result.text_table.values import plain
from traceql.runs.compare.comparison import SIDES, Comparison
from traceql.runs.compare.sentences import answers

_TABLES = (
    "coverage",
    "setup",
    "change",
    "cause",
    "waterfall",
    "stratum",
    "total",
    "lost",
    "layer",
    "layer_change",
    "kernel_use",
    "unnamed_kernel",
)


def document_text(comparison: Comparison) -> str:
    """The answers, the runs and all tables; NULL is null, times are ns."""
    document: dict[str, Any] = {
        "answers": [{"verdict": str(one.verdict), "text": one.text} for one in answers(comparison)],
        "runs": {
            side: [run.name for run in runs]
            for side, runs in zip(SIDES, (comparison.base, comparison.new), strict=True)
        },
        "threshold_pct": 100 * comparison.threshold,
        "not_comparable": comparison.forbidden or None,
    }
    for name in _TABLES:
        document[name] = plain(comparison.table(f"SELECT * FROM {name}"))
    return json.dumps(document, indent=1, allow_nan=False)


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
