"""JSON made to cost much or to hide something: read in time in proportion to it, or refused."""

import time
from pathlib import Path

import pytest

from traceql.errors import TraceCorrupt
from traceql.readers.formats.kineto import kineto_json
from traceql.readers.formats.kineto.read import read_kineto
from traceql.readers.tables import TraceTables

_EVENT = '{"ph": "X", "name": "op", "cat": "c", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
_SECONDS = 20  # of the CPU; what is read in proportion to its size takes a tenth of this


def read(folder: Path, text: str) -> TraceTables:
    path = folder / "rank0.json"
    path.write_text(text, encoding="utf-8")
    begun = time.process_time()
    try:
        return next(read_kineto(path, trace_processor=None))
    finally:
        assert time.process_time() - begun < _SECONDS


def events(*given: str, after: str = "") -> str:
    return f'{{"traceEvents": [{", ".join(given)}]{after}}}'


@pytest.mark.parametrize("key", ["ts", "dur"])
@pytest.mark.parametrize("number", ["1e999990", "-1e999990", '"1e99999"', "9" * 1_000_000])
def test_a_time_with_a_huge_exponent_is_refused_at_once(
    key: str, number: str, tmp_path: Path
) -> None:
    begun = time.process_time()
    with pytest.raises(TraceCorrupt, match=r"is not a time|does not fit 64-bit nanoseconds"):
        read(tmp_path, events(_EVENT.replace(f'"{key}": 1', f'"{key}": {number}')))
    assert time.process_time() - begun < 2


def test_durations_that_add_up_to_more_than_64_bits_are_refused(tmp_path: Path) -> None:
    long = _EVENT.replace('"dur": 1', '"dur": 9e15')
    other = long.replace('"tid": 1', '"tid": 2')
    with pytest.raises(TraceCorrupt, match="292 years in all"):
        read(tmp_path, events(long, other))


def test_categories_of_the_same_text_are_counted_as_one(tmp_path: Path) -> None:
    cats = ("null", '""', '"1"', "1")
    given = [_EVENT.replace('"cat": "c"', f'"cat": {cat}') for cat in cats]
    count = read(tmp_path, events(*given)).tables["count"].to_pylist()
    assert sorted((row["cat"], row["events"], row["dur"]) for row in count) == [
        ("", 2, 2000),
        ("1", 2, 2000),
    ]


@pytest.mark.parametrize("deep", [1000, 100_000])
@pytest.mark.parametrize("first", [True, False], ids=["before the events", "after the events"])
def test_metadata_nested_too_deep_is_refused(deep: int, first: bool, tmp_path: Path) -> None:
    nested = '"x": ' + "[" * deep + "]" * deep
    many = ", ".join([_EVENT] * 9000)  # so many that the file is cut into batches
    text = f'{{{nested}, "traceEvents": [{many}]}}' if first else events(many, after=f", {nested}")
    with pytest.raises(TraceCorrupt, match="nests too deeply"):
        read(tmp_path, text)


@pytest.mark.parametrize("second", [r'"trace\u0045vents"', r'"\u0074raceEvent\u0073"'])
@pytest.mark.parametrize("batch_bytes", [10, 1 << 20])
@pytest.mark.parametrize("order", [1, -1])
def test_events_given_twice_under_an_escaped_key_are_refused(
    second: str, batch_bytes: int, order: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", batch_bytes)
    one, other = (f"{key}: [{_EVENT}, {_EVENT}]" for key in ('"traceEvents"', second)[::order])
    with pytest.raises(TraceCorrupt, match="appears twice"):
        read(tmp_path, f"{{{one}, {other}}}")


@pytest.mark.parametrize("batch_bytes", [10, 1 << 20])
def test_events_under_an_escaped_key_are_read(
    batch_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", batch_bytes)
    text = f'{{"note": [1], "trace\\u0045vents": [{_EVENT}, {_EVENT}], "after": {{}}}}'
    found = read(tmp_path, text)
    assert len(found.tables["slice"]) == 2
    assert found.metadata.keys() == {"note", "after"}
