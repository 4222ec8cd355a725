"""A trace processor that loses or changes something is told on, and nothing is loaded."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import traces

from traceql.errors import LossyLoad
from traceql.readers import asked_nesting, lost_data
from traceql.readers.formats.kineto.read import read_kineto
from traceql.readers.trace_processor import TraceProcessor, arrow_table

Tamper = Callable[[pa.Table], pa.Table]


def later(found: pa.Table) -> pa.Table:
    """The last slice a microsecond later."""
    moved = [*found["ts"].to_pylist()[:-1], found["ts"][-1].as_py() + 1000]
    return found.set_column(0, "ts", pa.array(moved))


def of_another(found: pa.Table) -> pa.Table:
    """The first slice's index twice, and the last slice's not at all."""
    position = found.column_names.index("thread_ts")
    index = found["thread_ts"].to_pylist()
    return found.set_column(position, "thread_ts", pa.array([*index[:-1], index[0]]))


SLICES: dict[str, tuple[Tamper, str]] = {
    "none": (lambda found: found.slice(0, 0), "returned 0 of 3 slices"),
    "one less": (lambda found: found.slice(1), "returned 2 of 3 slices"),
    "one later": (later, "changed the time of 1 events"),
    "one twice": (of_another, "returned 2 of 3 events"),
}


def read_tampered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, query: str, tamper: Tamper
) -> pa.Table:
    """The slices of three kernels, of which a query's answer was changed on the way."""

    def answer(tp: TraceProcessor, sql: str) -> pa.Table:
        found = arrow_table(tp, sql)
        return tamper(found) if sql == query else found

    for module in (asked_nesting, lost_data):
        monkeypatch.setattr(module, "arrow_table", answer)
    path = folder / "trace.json"
    traces.write(path, *(traces.kernel(ts=10 * n, dur=5) for n in range(3)))
    return read_kineto(path, trace_processor=None).tables["slice"]


@pytest.mark.parametrize("case", SLICES)
def test_slices_that_do_not_come_back_as_fed_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    tamper, message = SLICES[case]
    with pytest.raises(LossyLoad, match=message):
        read_tampered(tmp_path, monkeypatch, asked_nesting._SLICES, tamper)


def test_an_error_statistic_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "slice_drop_overlapping_complete_event"
    one = pa.table({"name": [name], "severity": ["error"], "value": [2]})
    with pytest.raises(LossyLoad, match=rf"\({name}=2\)"):
        read_tampered(tmp_path, monkeypatch, lost_data._STATISTICS, lambda _: one)


def test_an_answer_left_alone_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = read_tampered(tmp_path, monkeypatch, asked_nesting._SLICES, lambda found: found)
    assert slices["ts"].to_pylist() == [0, 10_000, 20_000]
