"""Slices that nest are placed all at once, as if one came after the other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import traces
from hypothesis import given, settings
from hypothesis import strategies as st

from traceql.errors import LossyLoad
from traceql.readers import lost_data, nester, nesting
from traceql.readers.formats.kineto.read import read_kineto
from traceql.readers.lanes import DEEPEST
from traceql.readers.nester import END, LATE_END, SLICE
from traceql.readers.trace_processor import TraceProcessor, arrow_table

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


# --- a trace processor that loses or changes slices is an error ----------------------------------


Tamper = Callable[[pa.Table], pa.Table]


def read_tampered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, query: str, tamper: Tamper
) -> None:
    """Reads three kernels; a query's answer is changed on the way."""

    def answer(tp: TraceProcessor, sql: str) -> pa.Table:
        found = arrow_table(tp, sql)
        return tamper(found) if sql == query else found

    for module in (nesting, lost_data):
        monkeypatch.setattr(module, "arrow_table", answer)
    path = folder / "trace.json"
    traces.write(path, *(traces.kernel(ts=10 * n, dur=5) for n in range(3)))
    list(read_kineto(path, trace_processor=None))


def later(found: pa.Table) -> pa.Table:
    """The last slice a microsecond later."""
    moved = [*found["ts"].to_pylist()[:-1], found["ts"][-1].as_py() + 1000]
    return found.set_column(0, "ts", pa.array(moved))


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (lambda found: found.slice(1), "returned 2 of 3 slices"),
        (later, "changed the time of 1 events"),
        (lambda found: found.take([0, 1, 0]), "returned 2 of 3 events"),
    ],
)
def test_slices_that_do_not_come_back_as_fed_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tamper: Tamper, message: str
) -> None:
    with pytest.raises(LossyLoad, match=message):
        read_tampered(tmp_path, monkeypatch, nesting._SLICES, tamper)


def test_an_error_statistic_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "slice_drop_overlapping_complete_event"
    one = pa.table({"name": [name], "severity": ["error"], "value": [2]})
    with pytest.raises(LossyLoad, match=rf"\({name}=2\)"):
        read_tampered(tmp_path, monkeypatch, lost_data._STATISTICS, lambda _: one)
