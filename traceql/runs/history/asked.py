"""Reads what a history is asked of: `step`, `decode.step`, `decode.idle.host`."""

from collections.abc import Collection, Iterable, Sequence

from traceql.errors import QueryInvalid
from traceql.runs.history.values import ALL
from traceql.util.suggestions import suggestion

STEP = "step"
_WITHOUT_WORK = "idle"  # a phase, whose steps are asked for by name only


def asked_series(
    asked: Sequence[str], phases: Sequence[str], metrics: Collection[str]
) -> list[tuple[str, str]]:
    """Scope and metric of each series that the runs have; as in a gate, all phases without one.

    Args:
        asked: texts of the form [PHASE.]METRIC; the steps of each phase if empty.
        phases: that the runs have.
        metrics: that the runs have.
    """
    if not asked:
        return [(phase, STEP) for phase in phases if phase != _WITHOUT_WORK]
    found: dict[tuple[str, str], None] = {}
    for text in asked:
        scope, _, metric = text.partition(".")
        if text in metrics:
            found[ALL, text] = None
        elif scope in (*phases, ALL) and metric in metrics:
            found[scope, metric] = None
    return list(found)


def require_known(asked: Iterable[str], phases: Collection[str], metrics: Collection[str]) -> None:
    """Refuses what no run has.

    Raises:
        QueryInvalid: the message suggests the closest names.
    """
    scoped = [f"{scope}.{metric}" for scope in (*sorted(phases), ALL) for metric in sorted(metrics)]
    for text in asked:
        if text not in metrics and text not in scoped:
            names = scoped if "." in text else sorted(metrics)
            hint = suggestion(text, names) or f"there are {', '.join(sorted(metrics))}"
            raise QueryInvalid(f"no run has the metric '{text}'; {hint}")
