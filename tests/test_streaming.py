"""The streaming reader gives the tables that the trace processor gives, row for row."""

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import databases
import pyarrow as pa
import pytest
import traces

from traceql.errors import TraceCorrupt, TraceqlError
from traceql.readers.formats.kineto.read import read_kineto
from traceql.readers.formats.kineto.streaming import scratch, sections
from traceql.readers.formats.kineto.streaming.read import stream_kineto
from traceql.readers.formats.kineto.streaming.sections import Range
from traceql.readers.tables import TraceTables

Event = dict[str, Any]
_LIMITS = {"memory_bytes": 1 << 30, "processes": 3}
# How the parents were found is told in the ledger, and is the one thing that may differ.
_OF_ONE_WAY = {"trace processor errors", "nested events"}
_IN_ANY_ORDER = {"flow", "count", "load_check"}


@pytest.fixture(autouse=True)
def small_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "_EVENTS", 1)
    monkeypatch.setattr(scratch, "_ROWS", 333)


def _compared(parts: Iterable[TraceTables]) -> dict[str, Any]:
    """All rows of each table, and the metadata of the file."""
    parts = list(parts)
    found: dict[str, Any] = {"metadata": parts[-1].metadata}
    for name in parts[0].tables:
        rows = pa.concat_tables([part.tables[name] for part in parts]).to_pylist()
        rows = [row for row in rows if row.get("check_name") not in _OF_ONE_WAY]
        found[name] = sorted(rows, key=str) if name in _IN_ANY_ORDER else rows
    return found


def outcome(read: Callable[[], Iterable[TraceTables]]) -> Any:
    """What a reader gives for a file, or the error that it raises."""
    try:
        return _compared(read())
    except TraceqlError as error:
        return type(error), str(error)


def require_equal(path: Path) -> Any:
    """What both readers give for a file, the streaming one in memory and on disk."""
    wanted, got = outcome(lambda: list(read_kineto(path, trace_processor=None))), None
    for share in (scratch._SHARE_OF_TABLES, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scratch, "_SHARE_OF_TABLES", share)
            got = outcome(lambda: stream_kineto(path, folder=path.parent, **_LIMITS))
        if isinstance(wanted, dict) and isinstance(got, dict):
            for name, rows in wanted.items():
                assert got[name] == rows, (share, name)
        assert got == wanted
    return got


@pytest.mark.slow
@pytest.mark.parametrize("run", [name for name in databases.RUNS if name != databases.SERVING])
def test_recordings_give_the_same_tables(run: str, tmp_path: Path) -> None:
    for file in databases.files(run):
        if not file.exists():
            pytest.skip("needs a trace that is not bundled")
        path = tmp_path / file.name
        path.symlink_to(file)
        got = require_equal(path)
        assert len(got["slice"]) > 1000


def crowded(draw: random.Random) -> list[Event]:
    """Few instants and threads, so that most slices touch others, and flows of every shape."""
    until = draw.choice([4, 8, 50, 1000])
    found: list[Event] = []
    for _ in range(draw.choice([3, 20, 200])):
        dur = draw.choice([0, 0, 1, 2, -1, draw.randrange(until)])
        tid = draw.randrange(3)
        found.append(traces.host("x", ts=draw.randrange(until), dur=dur, tid=tid))
    flows = draw.choice([1, 5, 30])
    for _ in range(draw.choice([0, 4, 60])):
        place = {"ts": draw.randrange(until), "pid": traces.PID, "tid": draw.randrange(4)}
        end = {"ph": draw.choice("ssttff"), "id": draw.randrange(flows), "name": draw.choice("ab")}
        found.append(place | end | draw.choice([{"bp": "e"}, {}]))
    for _ in range(draw.choice([0, 5, 100])):
        place = {"ts": draw.randrange(until), "pid": traces.PID, "tid": draw.randrange(4)}
        kind = {"ph": draw.choice("BEbeC"), "id": draw.randrange(2), "name": draw.choice("ab")}
        found.append(place | kind | {"args": {"n": draw.randrange(9)}})
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_crowded_events_give_the_same_tables(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    for number in range(6):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"traceEvents": crowded(draw)}))
        require_equal(path)


def test_activities_of_any_device_give_the_same_tables(tmp_path: Path) -> None:
    events = []
    for ts in range(0, 60, 10):
        events.append(traces.kernel(ts=ts, dur=5, cat="my_op", correlation=ts, device=1))
        events.append(traces.kernel(ts=ts, dur=5, cat=f"odd_{ts}", device=2, stream=ts))
        del events[-1]["args"]["device"]
    events += [traces.host("on the host", ts=0, dur=5, cat="hpu_op")]
    events += [traces.host("on the device", ts=0, dur=5, cat="hpu_op") | {"pid": 3}]
    events += [traces.host("aten::mm", ts=0, dur=5)]
    got = require_equal(traces.write(tmp_path / "trace.json", *events))
    assert len(got["activity"]) == 7
    assert [row["value"] for row in got["load_check"] if row["ok"] is False] == [6]


_SOURCES = ("qwen3-8b-tp1-graph", "qwen3-32b-tp4-graph-nccl")


def unpacked(run: str, folder: Path) -> Path:
    path = folder / "trace.json"
    path.write_bytes(gzip.decompress(databases.files(run)[0].read_bytes()))
    return path


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ranges of few bytes, in threads instead of processes; how many each file was given."""
    found: list[int] = []
    whole_ranges = sections.ranges

    def noted(path: Path, wanted: int) -> list[Range]:
        parts = whole_ranges(path, wanted)
        found.append(len(parts))
        return parts

    monkeypatch.setattr(sections, "_LEAST_BYTES", 1)
    monkeypatch.setattr(sections, "ranges", noted)
    monkeypatch.setattr(sections, "ProcessPoolExecutor", lambda n, _: ThreadPoolExecutor(n))
    return found


@pytest.mark.slow
def test_ranges_of_a_file_give_the_same_tables(small_ranges: list[int], tmp_path: Path) -> None:
    for run in _SOURCES:
        require_equal(unpacked(run, tmp_path))
    assert small_ranges == [3] * 4  # both recordings, in memory and on disk
    for seed in range(8):
        path = tmp_path / f"{seed}.json"
        path.write_text(json.dumps({"traceEvents": crowded(random.Random(seed)), "after": 7}))
        require_equal(path)


@pytest.mark.slow
def test_processes_that_read_ranges_give_the_same_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sections, "_LEAST_BYTES", 1)
    require_equal(unpacked(_SOURCES[0], tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        '{"ph":"X","name":"},{\\"ph\\":\\"X\\"","ts":1,"dur":2,"pid":1,"tid":1}',
        '{"ph":"X","ts":1,"dur":2,"pid":1,"tid":1,"args":{"all":[{"ph":"X"},{"ph":"X"},{"ph":7}]}}',
    ],
)
def test_what_looks_like_a_seam_inside_an_event_is_none(
    text: str, small_ranges: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f'{{"traceEvents":[{",".join([text] * 40)}]}}')
    assert len(require_equal(path)["slice"]) == 40
    assert small_ranges[0] > 1


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_damage_in_a_range_is_reported_as_for_the_whole_file(
    share: float, small_ranges: list[int], tmp_path: Path
) -> None:
    path = unpacked(_SOURCES[0], tmp_path)
    text = path.read_bytes()
    at = text.index(b'"ph"', int(len(text) * share))
    path.write_bytes(text[:at] + b"}" + text[at + 1 :])
    kind, message = require_equal(path)
    assert kind is TraceCorrupt
    assert "truncated or damaged JSON" in message


def test_streaming_starts_without_the_trace_processor_and_its_libraries() -> None:
    code = "import sys, traceql.readers.formats.kineto.streaming.read; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"traceql.readers.trace_processor", "perfetto", "google.protobuf"}
    assert not heavy & {*shown.stdout.split()}
