"""What the check by measured points says in words."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from traceql.advise.check import Check, Checked


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
        f"{_median_pct([one.tpot_error for one in check.checked])} (median) and "
        f"{100 * worst.tpot_error:+.1f}% at worst ({worst.point.layout}, {worst.point.load}, "
        f"{worst.point.requests.prompt_tokens:,} prompt tokens)"
    )
    ttft = [one.ttft_error for one in check.checked if one.ttft_error is not None]
    if not ttft:
        return f"{found}."
    return f"{found}; TTFT by {_median_pct(ttft)} and {100 * max(ttft, key=abs):+.1f}%."


def _by_layout(checked: Sequence[Checked]) -> Iterator[str]:
    """If there are several layouts."""
    found: dict[str, list[float]] = {}
    for one in checked:
        found.setdefault(str(one.point.layout), []).append(one.tpot_error)
    if len(found) > 1:
        listed = "; ".join(
            f"{layout} by {_median_pct(errors)} and {100 * max(errors, key=abs):+.1f}% "
            f"({_points(len(errors))})"
            for layout, errors in found.items()
        )
        yield f"TPOT by layout: {listed}."


def _median_pct(errors: Sequence[float]) -> str:
    return f"{100 * median(map(abs, errors)):.1f}%"


def _points(count: int) -> str:
    return f"{count:,} point{'' if count == 1 else 's'}"
