"""Slices that nest are placed all at once, as if one came after the other."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceql.readers import nester
from traceql.readers.enclosing import DEEPEST
from traceql.readers.track_nesting import END, LATE_END, SLICE

Event = tuple[int, int, int, int, int]  # track, time, duration, number, kind
_EXTREME = st.sampled_from([-(2**63), -(2**62), 2**62, 2**63 - 1])
_TIMES = st.integers(-5, 40)


def in_order(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda e: (e[0], e[1], e[4] > 0, -e[2], e[3]))


@st.composite
def crowded(draw: st.DrawFn) -> list[Event]:
    found = []
    for number in range(draw(st.integers(0, 60))):
        kind = draw(st.sampled_from([SLICE, SLICE, SLICE, END, LATE_END]))
        ts = draw(st.one_of(_TIMES, _TIMES, _TIMES, _TIMES, _EXTREME))
        dur = draw(st.sampled_from([0, 0, 1, 3, 10, 30, 2**63 - 1])) if kind == SLICE else 0
        found.append((draw(st.integers(0, 2)), ts, dur, number, kind))
    return in_order(found)


def placed(events: list[Event], cuts: list[int], *, few: int) -> Any:
    """What is found if the events come in parts, and fewer slices are taken one by one."""
    into, parts = nester.Nester(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nester, "_FEW", few)
        for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
            rows = np.array(events[begin:end], np.int64).reshape(-1, 5)
            found = into.add(*(rows[:, column].copy() for column in range(5)))
            bound = sorted(zip(*(column.tolist() for column in found.bound), strict=True))
            parts.append((found.parent.tolist(), found.depth.tolist(), found.overlapping, bound))
    return parts


def require_same(events: list[Event], cuts: list[int]) -> Any:
    wanted = placed(events, cuts, few=len(events) + 1)
    assert placed(events, cuts, few=1) == wanted
    return wanted


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(crowded(), st.lists(st.integers(0, 60), max_size=3))
def test_slices_are_placed_at_once_as_one_by_one(events: list[Event], cuts: list[int]) -> None:
    require_same(events, sorted(cuts))


def test_deep_and_crowded_slices() -> None:
    """Deeper than a lane may be, and more lanes than lists begin with."""
    deep = [(0, n, 10_000 - 2 * n, n, SLICE) for n in range(DEEPEST + 50)]
    staggered = [(1, n, 3000, n, SLICE) for n in range(2000)]
    found = require_same(deep + staggered, [700])
    assert sum(overlapping for _, _, overlapping, _ in found) == 50 + 1999


def test_a_slice_of_another_lane_is_open_inside_the_next_part() -> None:
    events = [(0, 0, 10, 0, SLICE), (0, 5, 20, 1, SLICE), (0, 6, 1, 2, SLICE)]
    later = [(0, 12, 5, 3, SLICE), (0, 14, 20, 4, SLICE), (0, 15, 0, 5, END)]
    require_same(events + later, [3])


def test_no_events() -> None:
    assert placed([], [], few=1) == [([], [], 0, [])]
