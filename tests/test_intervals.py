"""Properties of everything that measures intervals, for events that Hypothesis makes up."""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceql.analysis.intervals import Elapsed
from traceql.errors import TraceCorrupt
from traceql.readers.formats.kineto.times import nanoseconds
from traceql.readers.lanes import lanes

Interval = tuple[int, int]  # start and duration


MANY = settings(max_examples=400, deadline=None)


# --- lanes -----------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 6)), max_size=14
)  # track, ts, dur


def crosses(a: Interval, b: Interval) -> bool:
    """Whether one begins inside the other and outlives it."""
    (start, _), (later, _) = (first, second) = sorted((a, b))
    end, later_end = start + first[1], later + second[1]
    return start < later < end < later_end


@pytest.mark.slow
@MANY
@given(EVENTS)
def test_events_of_a_lane_nest_and_only_tracks_with_crossing_events_have_several(
    events: list[tuple[int, int, int]],
) -> None:
    track, ts, dur = (np.array([event[i] for event in events], np.int64) for i in range(3))
    lane = lanes(track, ts, dur)
    members: defaultdict[tuple[int, int], list[Interval]] = defaultdict(list)
    for number, event in zip(lane.tolist(), events, strict=True):
        members[event[0], number].append(event[1:])
    for place in members.values():
        assert not any(crosses(a, b) for a, b in combinations(place, 2))
    for number in {event[0] for event in events}:
        of_track = [event[1:] for event in events if event[0] == number]
        crossing = any(crosses(a, b) for a, b in combinations(of_track, 2))
        assert bool(lane[track == number].any()) is crossing


@MANY
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=8),
    st.integers(0, 2**60),
    st.tuples(st.integers(-2, 45), st.integers(0, 45)),
)
def test_time_between_instants_counts_each_interval(
    intervals: list[Interval], epoch: int, window: tuple[int, int]
) -> None:
    ts, dur = np.array(intervals, np.int64).reshape(-1, 2).T
    begin, length = window
    inside = range(begin, begin + length)
    expected = sum(point in inside for t, d in intervals for point in range(t, t + d))
    found = Elapsed.of(ts + epoch, dur).between(
        np.array([begin + epoch]), np.array([begin + length + epoch])
    )
    assert found.tolist() == [expected]


# --- decimal microseconds --------------------------------------------------------------------

WHOLE = st.integers(0, 9_000_000_000_000_000).map(str)
FRACTION = st.text("0123456789", min_size=1, max_size=9)
SIGN = st.sampled_from(["", "-"])
PROFILER = st.builds("{}.{:03}".format, st.integers(0, 10**15 - 1), st.integers(0, 999))
PLAIN = st.builds("{}{}".format, SIGN, WHOLE) | st.builds("{}{}.{}".format, SIGN, WHOLE, FRACTION)
HALF = st.builds("{}{}.{:03}5".format, SIGN, WHOLE, st.integers(0, 999))  # half a nanosecond
EXPONENT = st.builds(
    "{}{}.{}{}{}".format,
    SIGN, st.integers(0, 9), FRACTION, st.sampled_from("eE"), st.integers(-9, 12),
)  # fmt: skip
NUMBERS = PROFILER | PLAIN | HALF | EXPONENT
QUOTED = NUMBERS.map('"{}"'.format)


@pytest.mark.slow
@MANY
@given(st.lists(NUMBERS | QUOTED, max_size=8) | st.lists(PROFILER, max_size=8))
def test_decimal_texts_become_exact_nanoseconds(texts: list[str]) -> None:
    # Python rounds a fraction half to even.
    expected = [round(Fraction(text.strip('"')) * 1000) for text in texts]
    assert nanoseconds([text.encode() for text in texts]).tolist() == expected


@pytest.mark.parametrize("odd", ["", "--1", "1.2.3", "1e", "x", "NaN", '"', "\xff", "9e999999"])
def test_text_that_is_no_number_is_an_error(odd: str) -> None:
    with pytest.raises(TraceCorrupt, match=r"is not a time$"):
        nanoseconds([b"1.500", odd.encode("latin-1"), b"2"])


def test_nanoseconds_beyond_64_bits_are_an_error() -> None:
    largest = ["9223372036854775.807", "-9223372036854775.808"]
    found = nanoseconds([text.encode() for text in largest])
    assert found.tolist() == [int(text.replace(".", "")) for text in largest]
    for text in (b"9223372036854775.808", b"-9223372036854775.809", b"1e17"):
        with pytest.raises(TraceCorrupt, match="does not fit"):
            nanoseconds([text])
