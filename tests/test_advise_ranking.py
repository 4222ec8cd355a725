"""Which layout is recommended, and bisected_requests which it cannot be decided."""

from dataclasses import replace

import pytest

from traceql.plan.advise.layouts import Layout, Memory
from traceql.plan.advise.prediction import Prediction, Spread
from traceql.plan.advise.ranking import (
    Candidate,
    best,
    bisected_requests,
    parsed_goal,
    ranked,
    tied_layouts,
    uncertain_limits,
)
from traceql.plan.advise.step_time import StepTime

STEP = StepTime(1e6, 1e6, 1e6, 0.0, 0.0, 1e6, ())
ROOM = Memory(1e9, 1.0, 10_000, 100, None)


def predicted(layout: Layout, *, tpot_ms: float, tokens_per_s: float = 1000) -> Prediction:
    tpot_ns, spread = tpot_ms * 1e6, Spread(0.9, 1.1)
    return Prediction(layout, 8, STEP, STEP, 1e6, 50e6, tpot_ns, tokens_per_s, spread, True)


def candidate(layout: Layout, *, tpot_ms: float = 10, tokens_per_s: float = 1000) -> Candidate:
    found = predicted(layout, tpot_ms=tpot_ms, tokens_per_s=tokens_per_s)
    return Candidate(layout, ROOM, found, None)


ONE, TWO, FOUR = Layout(), Layout(2), Layout(4)


def test_most_tokens_win_unless_a_limit_is_broken() -> None:
    slow = predicted(ONE, tpot_ms=30, tokens_per_s=5000)
    fast = predicted(ONE, tpot_ms=15, tokens_per_s=2000)
    assert best([slow, fast], parsed_goal("max throughput")) == (slow, None)
    assert best([slow, fast], parsed_goal("tpot < 20ms, max throughput")) == (fast, None)
    assert best([slow], parsed_goal("tpot < 20ms")) == (slow, "tpot 30.0 ms is above 20 ms")


def test_layouts_within_their_uncertainty_are_not_told_apart() -> None:
    first, near = candidate(ONE, tokens_per_s=1000), candidate(TWO, tokens_per_s=850)
    far = candidate(FOUR, tokens_per_s=800)
    # 850 / 0.9 is above 1000 / 1.1 = 909, 800 / 0.9 = 889 is not.
    goal = parsed_goal("max throughput")
    assert tied_layouts([first, near, far], goal) == [TWO]
    assert tied_layouts([candidate(ONE, tpot_ms=10), candidate(TWO, tpot_ms=13)], goal) == [TWO]
    latency = parsed_goal("min tpot")
    assert tied_layouts([candidate(ONE, tpot_ms=10), candidate(TWO, tpot_ms=13)], latency) == []


def test_fewest_gpus_are_told_apart_from_more() -> None:
    found = ranked([candidate(FOUR, tokens_per_s=9000), candidate(ONE)], parsed_goal("min gpus"))
    assert [one.layout for one in found] == [ONE, FOUR]
    assert tied_layouts(found, parsed_goal("min gpus")) == []


def test_what_cannot_be_chosen_comes_last_and_the_nearest_first() -> None:
    goal = parsed_goal("tpot < 20ms")
    far = replace(candidate(ONE, tpot_ms=90), why_not="tpot")
    near = replace(candidate(TWO, tpot_ms=25), why_not="tpot")
    unfit = Candidate(FOUR, ROOM, None, "does not fit")
    kept = candidate(Layout(dp=2), tpot_ms=19)
    found = ranked([unfit, far, near, kept], goal)
    assert [one.layout for one in found] == [Layout(dp=2), TWO, ONE, FOUR]


def test_limit_within_the_uncertainty_may_be_broken() -> None:
    goal = parsed_goal("tpot < 20ms")
    assert uncertain_limits(predicted(ONE, tpot_ms=19), goal) == ["tpot"]
    assert uncertain_limits(predicted(ONE, tpot_ms=18), goal) == []


@pytest.mark.parametrize(("kept", "broken", "tried"), [(32, 64, 48), (60, 64, None)])
def test_number_of_requests_is_narrowed_to_the_limit(
    kept: int, broken: int, tried: int | None
) -> None:
    goal = parsed_goal("tpot < 20ms")
    found = [
        replace(predicted(ONE, tpot_ms=10), requests=kept),
        replace(predicted(ONE, tpot_ms=30), requests=broken),
    ]
    assert bisected_requests(found, goal) == tried
    assert bisected_requests(found[:1], goal) is None
    assert bisected_requests(found[1:], goal) is None


def test_stages_get_whole_batches() -> None:
    layout = Layout(pp=3, dp=2)
    found = [
        replace(predicted(layout, tpot_ms=10), requests=12),
        replace(predicted(layout, tpot_ms=30), requests=24),
    ]
    assert bisected_requests(found, parsed_goal("tpot < 20ms")) == 9  # of each replica; 18 in all
