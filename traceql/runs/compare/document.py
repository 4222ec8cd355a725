"""A comparison as one JSON document."""

import json
from typing import Any

from traceql.result.text_table.plain import plain
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
