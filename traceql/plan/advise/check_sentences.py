"""What the check by measured points says in words."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from traceql.plan.advise.check import Check, Checked

_WHOLE = 0.2  # share from which percents have no decimals


def check_sentences(check: Check) -> Iterator[str]:
    """How far predictions are from measured points, and which points say nothing of it."""
    if check.checked:
        yield _errors(check)
        yield from _by_layout(check.checked)
    else:
        yield (
            f"{check.name} holds no point that can be compared with a prediction: it is not "
            "evidence for this advice."
        )
    if check.left_out:
        reasons = Counter(one.reason for one in check.left_out)
        listed = "; ".join(f"{_points(count)} with {why}" for why, count in reasons.most_common())
        yield f"Left out of the comparison: {listed}."


def _errors(check: Check) -> str:
    worst = max(check.checked, key=lambda one: abs(one.tpot_error))
    found = (
        f"On {_points(len(check.checked))} of {check.name}, predicted TPOT is off by "
        f"{_off([one.tpot_error for one in check.checked])} ({worst.point.layout}, "
        f"{worst.point.load}, "
        f"{worst.point.requests.prompt_tokens:,} prompt tokens)"
    )
    if not check.ttft_errors:
        return f"{found}."
    return f"{found}; TTFT by {_off(check.ttft_errors)}."


def _by_layout(checked: Sequence[Checked]) -> Iterator[str]:
    """If there are several layouts."""
    found: dict[str, list[float]] = {}
    for one in checked:
        found.setdefault(str(one.point.layout), []).append(one.tpot_error)
    if len(found) > 1:
        listed = "; ".join(
            f"{layout} by {_off(errors)} ({_points(len(errors))})"
            for layout, errors in found.items()
        )
        yield f"TPOT by layout: {listed}."


def median_text(errors: Sequence[float]) -> str:
    """The median error, whichever way it goes."""
    return f"{_pct(median(map(abs, errors)))} in the median"


def _off(errors: Sequence[float]) -> str:
    worst = max(errors, key=abs)
    return (
        f"{median_text(errors)}, at worst {_pct(abs(worst))} too {'low' if worst < 0 else 'high'}"
    )


def _pct(share: float) -> str:
    return f"{100 * share:.{0 if share >= _WHOLE else 1}f}%"


def _points(count: int) -> str:
    return f"{count:,} point{'' if count == 1 else 's'}"
