"""The answer in sentences: what to run, why, how sure that is, and what is not known."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from traceql.plan.advise.advice import MOST_ERROR_PCT, Advice
from traceql.plan.advise.check import Check, Checked
from traceql.plan.advise.layouts import Layout, obstacle
from traceql.plan.advise.measured import MeasuredPoint
from traceql.plan.advise.prediction import Prediction
from traceql.plan.advise.ranking import Candidate, Goal, may_break


def best_measured(advice: Advice) -> MeasuredPoint | None:
    """Of the points that can be compared, are of an allowed layout and keep the limits.

    Points with the requests that were asked for come before others.
    """
    allowed = {one.layout for one in advice.candidates}
    kept = [
        one.point
        for one in (advice.check.checked if advice.check else ())
        if one.point.layout in allowed and one.point.tokens_per_s and _keeps(one.point, advice.goal)
    ]
    alike = [point for point in kept if point.requests == advice.requests]
    return max(alike or kept, key=lambda point: _merit(point, advice.goal), default=None)


def _keeps(point: MeasuredPoint, goal: Goal) -> bool:
    measured = {"tpot": point.tpot_ns, "ttft": point.ttft_ns}
    return all((measured[metric] or limit) < limit for metric, limit in goal.limits.items())


def _merit(point: MeasuredPoint, goal: Goal) -> tuple[float, ...]:
    tokens_per_s = point.tokens_per_s or 0.0
    if goal.aim == "min tpot":
        return (-(point.tpot_ns or 0.0), tokens_per_s)
    if goal.aim == "min gpus":
        return (-point.layout.gpus, tokens_per_s)
    return (tokens_per_s, -point.layout.gpus)


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


_NAMED = 4  # layouts in a sentence
_IDLE_SHARE = 0.25  # of a prefill step, from which it is told


def answer(advice: Advice) -> str:
    """One sentence: the recommended layout, or why there is none."""
    first = advice.candidates[0]
    found = first.prediction
    if advice.recommended and found:
        return f"Run {first.layout}{_measured(advice)}: {_numbers(found, advice.check)}."
    if first.why_not is None and found:
        why = f"No layout is recommended: {_weakness(advice)}"
        if advice.as_good:
            why += f", and {_listed([first.layout, *advice.as_good])} cannot be told apart"
        return f"{why}{_best_measured(advice)}."
    if found:
        return f"No layout keeps the goal; nearest is {first.layout}: {first.why_not}."
    return f"No layout can be recommended; {first.layout}: {first.why_not}."


def reasons(advice: Advice, gpus: int) -> Iterator[str]:
    """Why, how sure, and what is not known; a sentence each."""
    first = advice.candidates[0]
    if first.prediction:
        yield _parts(first.prediction)
        if advice.recommended:
            yield from _others(advice)
        yield from _doubts(advice, first)
    yield _basis(advice)
    if advice.check:
        yield from check_sentences(advice.check)
    refused = [tp for tp in range(1, gpus + 1) if obstacle(advice.model.sizes, Layout(tp))]
    if refused:
        why = obstacle(advice.model.sizes, Layout(refused[0]))
        yield f"vLLM cannot run TP {', '.join(map(str, refused))}: {why}."


def _measured(advice: Advice) -> str:
    """Whether the best layout was measured, if anything was."""
    if advice.measured_error_pct is None:
        return ""
    if not advice.measured:
        return ", which was not measured"
    most = max(point.in_flight or 0 for point in advice.measured)
    return (
        f", measured at {_counted(len(advice.measured), 'point')} with at most "
        f"{_counted(most, 'request')} at a time"
    )


def _best_measured(advice: Advice) -> str:
    point = best_measured(advice)
    if point is None or point.tpot_ns is None:
        return ""
    return (
        f"; the best that was measured is {point.layout}: measured {point.tokens_per_s:,.0f} "
        f"tokens/s, TPOT {point.tpot_ns / 1e6:.1f} ms at "
        f"{_counted(point.in_flight or 0, 'request')} of {point.requests.prompt_tokens:,} prompt "
        f"and {point.requests.output_tokens:,} output tokens"
    )


def _weakness(advice: Advice) -> str:
    measured_pct = advice.measured_error_pct
    if measured_pct is not None and measured_pct > MOST_ERROR_PCT:
        return f"predictions are off by up to {measured_pct:.0f}% at points that were measured"
    if advice.is_recorded:
        return f"the method errs by {advice.error_pct:.0f}% on the recorded steps themselves"
    if measured_pct is not None:
        return f"{advice.candidates[0].layout} was not measured"
    return "these are floors with default efficiencies, not predictions"


def _numbers(found: Prediction, check: Check | None) -> str:
    gpus = _counted(found.layout.gpus, "GPU")
    requests = _counted(found.requests, "request")
    errors = check.ttft_errors if check else ()
    off = f", which is off by {median_text(errors)} where it was measured" if errors else ""
    return (
        f"{found.tokens_per_s:,.0f} tokens/s on {gpus} with {requests} at a time, TPOT "
        f"{found.tpot_ns / 1e6:.1f} ms, TTFT {found.ttft_ns / 1e6:.0f} ms without a queue{off}; "
        f"TPOT and throughput may be {found.spread.text} off"
    )


def _parts(found: Prediction) -> str:
    step = found.step
    return (
        f"A decode step of one batch of {found.layout} takes {step.ns / 1e6:.2f} ms: computing "
        f"{step.computing_ns / 1e6:.2f} ms (the peaks allow {step.least_ns / 1e6:.2f}), "
        f"communication {step.communication_ns / 1e6:.2f} ms, idle {step.idle_ns / 1e6:.2f} ms. "
        f"Prompts of other requests take {(found.tpot_ns - found.step_ns) / 1e6:.2f} ms of the "
        "time per token."
    )


def _others(advice: Advice) -> Iterator[str]:
    """What it cannot be told from, and the best that it can be told from, on as many GPUs."""
    if advice.as_good:
        yield (
            f"Not told apart from it, given how sure the numbers are: {_listed(advice.as_good)}. "
            "Measure them to decide."
        )
    apart = [
        one
        for one in advice.candidates[1:]
        if one.prediction and not one.why_not and one.layout not in advice.as_good
    ]
    gpus = advice.candidates[0].layout.gpus
    following = next((one for one in apart if one.layout.gpus == gpus), None)
    if following and following.prediction:
        yield f"Behind them is {following.layout}: {_numbers(following.prediction, advice.check)}."


def _doubts(advice: Advice, first: Candidate) -> Iterator[str]:
    found = first.prediction
    assert found
    for metric in may_break(found, advice.goal):
        yield f"It may not keep the limit of {metric}, which is within the uncertainty."
    if found.step.unknown:
        yield f"Not known and left out: {', '.join(found.step.unknown)}."
    if advice.is_recorded and not found.has_recorded_prompts:
        yield "The recording has no prefill step: times of prompts are defaults."
    if found.prompt.idle_ns > _IDLE_SHARE * found.prompt.ns:
        share = 100 * found.prompt.idle_ns / found.prompt.ns
        yield (
            f"In recorded prefill steps the GPU is idle for {share:.0f}% of the time, as the host "
            "is slower under the profiler: TTFT and throughput are better without it."
        )


def _basis(advice: Advice) -> str:
    if not advice.is_recorded:
        source = "measured peaks" if advice.machine.is_measured else "data sheet"
        return (
            f"Nothing was recorded: times follow from the {source} of {advice.machine.name} and "
            "default efficiencies. Record one layout (traceql capture run) and give it with --run."
        )
    if advice.error_pct is None:
        return (
            "The recording has one size of decode step, so the method could not be checked on it."
        )
    return (
        f"On the recorded decode steps, the same method errs by {advice.error_pct:.1f}% (median)."
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _listed(layouts: Sequence[Layout]) -> str:
    named = ", ".join(map(str, layouts[:_NAMED]))
    more = len(layouts) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
