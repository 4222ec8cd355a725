"""An advice in sentences: what to run, why, how certain that is, and what is unknown."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from traceql.plan.advise.advice import MAX_ERROR_PCT, Advice
from traceql.plan.advise.check import Check, MeasuredPoint
from traceql.plan.advise.layouts import Layout, obstacle
from traceql.plan.advise.prediction import Prediction
from traceql.plan.advise.ranking import aim_order, uncertain_limits
from traceql.util.text import format_count

_MAX_NAMED = 4  # layouts in a sentence
_IDLE_SHARE = 0.25  # of a prefill step; more gets a sentence
_WHOLE = 0.2  # share from which percents have no decimals


def answer(advice: Advice) -> str:
    """One sentence: the recommended layout, or why there is none."""
    first = advice.candidates[0]
    found = first.prediction
    if advice.recommended and found:
        return f"Run {first.layout}{_measured(advice)}: {_numbers(found, advice.check)}."
    if first.why_not is None and found:
        why = f"No layout is recommended: {_weakness(advice)}"
        if advice.tied:
            why += f", and {_listed([first.layout, *advice.tied])} are statistically tied"
        if (point := best_measured(advice)) and point.tpot_ns is not None:
            requests = point.requests
            why += (
                f"; the best measured one is {point.layout}: {point.tokens_per_s:,.0f} tokens/s, "
                f"TPOT {point.tpot_ns / 1e6:.1f} ms at "
                f"{format_count(point.in_flight or 0, 'request')} of {requests.prompt_tokens:,} "
                f"prompt and {requests.output_tokens:,} output tokens"
            )
        return f"{why}."
    if found:
        return f"No layout meets the goal; nearest is {first.layout}: {first.why_not}."
    return f"No layout can be recommended; {first.layout}: {first.why_not}."


def reasons(advice: Advice) -> Iterator[str]:
    """Why, how certain, and what is unknown; a sentence each."""
    if found := advice.candidates[0].prediction:
        step = found.step
        yield (
            f"A decode step of one batch of {found.layout} takes {step.ns / 1e6:.2f} ms: computing "
            f"{step.computing_ns / 1e6:.2f} ms (floor {step.least_ns / 1e6:.2f}), communication "
            f"{step.communication_ns / 1e6:.2f} ms, idle {step.idle_ns / 1e6:.2f} ms. Prompts of "
            f"other requests add {(found.tpot_ns - found.step_ns) / 1e6:.2f} ms per token."
        )
        if advice.recommended and advice.tied:
            yield f"Statistically tied with it: {_listed(advice.tied)}. Measure them to decide."
        for one in advice.candidates[1:] if advice.recommended else ():
            is_as_large = one.layout.gpus == found.layout.gpus
            if one.prediction and not one.why_not and is_as_large and one.layout not in advice.tied:
                yield f"Next best is {one.layout}: {_numbers(one.prediction, advice.check)}."
                break
        yield from _doubts(advice, found)
    yield _basis(advice)
    if advice.check:
        yield from check_sentences(advice.check)
    sizes = advice.model.sizes
    impossible = {
        tp: why for tp in range(1, advice.gpus + 1) if (why := obstacle(sizes, Layout(tp)))
    }
    if impossible:
        first_reason = next(iter(impossible.values()))
        yield f"vLLM cannot run TP {', '.join(map(str, impossible))}: {first_reason}."


def _measured(advice: Advice) -> str:
    """Whether the best layout was measured, if any was."""
    if advice.measured_error_pct is None:
        return ""
    if not advice.measured:
        return ", which was not measured"
    most = max(point.in_flight or 0 for point in advice.measured)
    points = format_count(len(advice.measured), "point")
    return f", measured at {points} with at most {format_count(most, 'request')} at a time"


def best_measured(advice: Advice) -> MeasuredPoint | None:
    """The best comparable point of an allowed layout that meets the limits.

    Points with the same prompt and output tokens come before others.
    """
    allowed = {one.layout for one in advice.candidates}
    limits = advice.goal.limits

    def meets_limits(point: MeasuredPoint) -> bool:
        measured = {"tpot": point.tpot_ns, "ttft": point.ttft_ns}
        return all((measured[metric] or limit) < limit for metric, limit in limits.items())

    def order(point: MeasuredPoint) -> tuple[float, float]:
        tpot_ns, tokens_per_s = point.tpot_ns or 0.0, point.tokens_per_s or 0.0
        return aim_order(advice.goal, point.layout, tpot_ns, tokens_per_s)

    checked = [one.point for one in advice.check.checked] if advice.check else []
    possible = [one for one in checked if one.layout in allowed and one.tokens_per_s]
    points = [one for one in possible if meets_limits(one)]
    alike = [point for point in points if point.requests == advice.requests]
    return max(alike or points, key=order, default=None)


def _weakness(advice: Advice) -> str:
    measured_pct = advice.measured_error_pct
    if measured_pct is not None and measured_pct > MAX_ERROR_PCT:
        return f"predictions are off by up to {measured_pct:.0f}% at measured points"
    if advice.is_recorded:
        return f"predictions of the recorded steps are off by {advice.error_pct:.0f}%"
    if measured_pct is not None:
        return f"{advice.candidates[0].layout} was not measured"
    return "these are floors with default efficiencies, not predictions"


def _numbers(found: Prediction, check: Check | None) -> str:
    gpus = format_count(found.layout.gpus, "GPU")
    requests = format_count(found.requests, "request")
    errors = check.ttft_errors if check else ()
    off = f" (off by {_format_median(errors)} where measured)" if errors else ""
    return (
        f"{found.tokens_per_s:,.0f} tokens/s on {gpus} with {requests} at a time, TPOT "
        f"{found.tpot_ns / 1e6:.1f} ms, TTFT {found.ttft_ns / 1e6:.0f} ms without a queue{off}; "
        f"uncertainty of TPOT and throughput {found.spread.text}"
    )


def _doubts(advice: Advice, found: Prediction) -> Iterator[str]:
    for metric in uncertain_limits(found, advice.goal):
        yield f"The limit of {metric} is within the uncertainty and may be missed."
    if found.step.unknown:
        yield f"Unknown and left out: {', '.join(found.step.unknown)}."
    if advice.is_recorded and not found.has_recorded_prompts:
        yield "The recording has no prefill step: times of prompts are defaults."
    if found.prompt.idle_ns > _IDLE_SHARE * found.prompt.ns:
        share = 100 * found.prompt.idle_ns / found.prompt.ns
        yield (
            f"In recorded prefill steps the GPU is idle for {share:.0f}% of the time, because the "
            "profiler slows the host: TTFT and throughput are better without it."
        )


def _basis(advice: Advice) -> str:
    if not advice.is_recorded:
        source = "measured peaks" if advice.machine.is_measured else "data sheet"
        return (
            f"Without a recording, times follow from the {source} of {advice.machine.name} and "
            "default efficiencies. Record one layout (traceql capture run) and use it with --run."
        )
    if advice.error_pct is None:
        return (
            "The recording has one size of decode step, so the method could not be checked on it."
        )
    return f"Predictions of the recorded decode steps are off by {advice.error_pct:.1f}% (median)."


def check_sentences(check: Check) -> Iterator[str]:
    """The errors of predictions of measured points, by layout too, and the skipped points."""
    if check.checked:
        worst = max(check.checked, key=lambda one: abs(one.tpot_error))
        ttft = f"; TTFT by {_format_errors(check.ttft_errors)}" if check.ttft_errors else ""
        yield (
            f"On {format_count(len(check.checked), 'point')} of {check.name}, predicted TPOT is "
            f"off by {_format_errors([one.tpot_error for one in check.checked])} "
            f"({worst.point.layout}, {worst.point.load}, "
            f"{worst.point.requests.prompt_tokens:,} prompt tokens){ttft}."
        )
        by_layout: dict[str, list[float]] = {}
        for one in check.checked:
            by_layout.setdefault(str(one.point.layout), []).append(one.tpot_error)
        if len(by_layout) > 1:
            listed = "; ".join(
                f"{layout} by {_format_errors(errors)} ({format_count(len(errors), 'point')})"
                for layout, errors in by_layout.items()
            )
            yield f"TPOT by layout: {listed}."
    else:
        yield (
            f"{check.name} has no point that can be compared with a prediction, so it does not "
            "support this advice."
        )
    if check.skipped:
        counts = Counter(reason for _, reason in check.skipped).most_common()
        listed = "; ".join(f"{format_count(count, 'point')} with {why}" for why, count in counts)
        yield f"Left out of the comparison: {listed}."


def _format_errors(errors: Sequence[float]) -> str:
    worst = max(errors, key=abs)
    direction = "low" if worst < 0 else "high"
    return f"{_format_median(errors)}, at worst {_format_percent(abs(worst))} too {direction}"


def _format_median(errors: Sequence[float]) -> str:
    return f"{_format_percent(median(map(abs, errors)))} in the median"


def _format_percent(share: float) -> str:
    return f"{100 * share:.{0 if share >= _WHOLE else 1}f}%"


def _listed(layouts: Sequence[Layout]) -> str:
    named = ", ".join(map(str, layouts[:_MAX_NAMED]))
    more = len(layouts) - _MAX_NAMED
    return f"{named} and {more} more" if more > 0 else named
