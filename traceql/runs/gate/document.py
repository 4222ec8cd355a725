"""The answer of a gate as JSON. Keys may be added; none changes its meaning within a format."""

import json
from dataclasses import asdict
from typing import Any

from traceql.runs.gate.outcome import Gate, Outcome
from traceql.util.printable import printable
from traceql.util.version import __version__

_FORMAT = 1


def json_text(gate: Gate) -> str:
    """One document, with unchanged numbers."""
    document = {
        "format": _FORMAT,
        "traceql": __version__,
        "verdict": str(gate.verdict),
        "exit_status": gate.exit_status,
        "criteria": [_outcome(one) for one in gate.outcomes],
        "notes": list(gate.notes),
        "setup": [asdict(one) | {"effect": str(one.effect)} for one in gate.differences],
        "base": asdict(gate.base),
        "new": asdict(gate.new),
    }
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _outcome(outcome: Outcome) -> dict[str, Any]:
    numbers = None if outcome.numbers is None else asdict(outcome.numbers)
    return {
        "criterion": str(outcome.criterion),
        "scope": outcome.criterion.scope,
        "metric": outcome.criterion.metric.name,
        "limit_pct": outcome.criterion.limit_pct,
        "verdict": str(outcome.verdict),
        "improved": outcome.improved,
        "reason": outcome.reason,
        "runs_needed": outcome.runs_needed,
        "numbers": numbers,
        "causes": [asdict(one) for one in outcome.causes],
    }


def _plain(value: Any) -> Any:
    """The value without characters that UTF-8 lacks."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
