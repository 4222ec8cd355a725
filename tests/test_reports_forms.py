"""Forms of JSON traces that public reports show: what loads, and what a refusal says."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import traces
from command_line import called
from hypothesis import given, settings
from hypothesis import strategies as st
from report_inputs import Event, border, ledger, loaded, report, rows

from traceql.errors import TraceCorrupt
from traceql.readers.formats.kineto import kineto_json, unescaped
from traceql.readers.formats.kineto.read import read_kineto
from traceql.readers.formats.kineto.streaming.read import stream_kineto
from traceql.readers.tables import TraceTables

_OF_ONE_WAY = {"trace processor errors", "nested events"}


def both_ways(path: Path) -> dict[str, list[Event]]:
    """The tables of a file, which are the same whether it is streamed or not."""

    def tables(parts: list[TraceTables]) -> dict[str, list[Event]]:
        found = {
            name: pa.concat_tables([part.tables[name] for part in parts]).to_pylist()
            for name in parts[0].tables
        }
        checks = [row for row in found["load_check"] if row["check_name"] not in _OF_ONE_WAY]
        return found | {
            "load_check": sorted(checks, key=str),
            "count": sorted(found["count"], key=str),
        }

    whole = tables(list(read_kineto(path, trace_processor=None)))
    streamed = stream_kineto(path, folder=path.parent, memory_bytes=1 << 30)
    assert tables(list(streamed)) == whole
    return whole


def check_value(found: dict[str, list[Event]], check: str) -> list[int]:
    return [row["value"] for row in found["load_check"] if row["check_name"] == check]


def write(folder: Path, events: list[Event]) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


# --- begin and end events, counters --------------------------------------------------------------


def sample(ts: float, name: str = "queue", pid: Any = 1, **series: Any) -> Event:
    return {"ph": "C", "name": name, "pid": pid, "ts": ts, "args": series}


def test_the_begin_and_end_events_of_a_report(tmp_path: Path) -> None:
    run = loaded(report("begin-end-events", "trace.json"), tmp_path)
    found = rows(
        run, "SELECT name, COUNT(*), SUM(dur), MIN(depth) FROM slice GROUP BY name ORDER BY 1"
    )
    assert found == [("aten::mm", 20, 800_000, 1), ("forward", 20, 1_800_000, 0)]
    assert ledger(run, "begin and end events") == (80, 80, True)
    assert rows(run, "SELECT COUNT(*) FROM counter") == [(20,)]
    assert rows(run, "SELECT COUNT(*) FROM ledger WHERE NOT ok") == [(0,)]


def slices(path: Path) -> list[tuple[Any, ...]]:
    """Name, time, thread, depth and name of the parent of each slice, in a canonical order."""
    found = both_ways(path)["slice"]
    names = {row["index"]: row["name"] for row in found}
    return sorted(
        (
            row["name"],
            row["ts"],
            row["dur"],
            row["tid"],
            row["depth"],
            str(names.get(row["parent"])),
        )
        for row in found
    )


def tree(draw: st.DrawFn, begin: int, end: int, depth: int) -> list[tuple[int, int, int]]:
    """Begin, end and depth of spans that nest, each parent before its children."""
    found, at = [], begin
    for _ in range(draw(st.integers(0, 3)) if depth < 4 else 0):
        at, until = sorted(draw(st.tuples(*[st.integers(at, end)] * 2)))
        found += [(at, until, depth), *tree(draw, at, until, depth + 1)]
        at = until
    return found


@st.composite
def spans(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Thread, begin, end and depth of spans; times in ns."""
    return [(tid, *span) for tid in (1, 2) for span in tree(draw, 0, 40, 0)]


@settings(deadline=None, max_examples=30)
@given(spans(), st.booleans(), st.randoms(use_true_random=False))
def test_pairs_are_the_same_slices_as_complete_events(
    tmp_path_factory: pytest.TempPathFactory,
    given_spans: list[tuple[int, int, int, int]],
    named: bool,
    order: random.Random,
) -> None:
    """The threads come in any order of their events in the file, and each in its own order."""
    complete: list[Event] = []
    by_thread: dict[int, list[Event]] = {1: [], 2: []}
    opened: dict[int, list[Event]] = {1: [], 2: []}
    for number, (tid, begin, end, depth) in enumerate(given_spans):
        name = f"span {number}"
        complete.append(border("X", name, ts=begin / 1000, tid=tid, dur=(end - begin) / 1000))
        while len(opened[tid]) > depth:
            by_thread[tid].append(opened[tid].pop())
        by_thread[tid].append(border("B", name, ts=begin / 1000, tid=tid))
        opened[tid].append(border("E", name if named else None, ts=end / 1000, tid=tid))
    borders = [by_thread[tid] + opened[tid][::-1] for tid in (1, 2)]
    mixed = []
    while any(borders):
        mixed.append(order.choice([each for each in borders if each]).pop(0))
    folder = tmp_path_factory.mktemp("pairs")
    assert slices(write(folder, mixed)) == slices(write(folder, complete))


def test_times_of_pairs_are_exact_and_arguments_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    begin = '{"ph":"B","name":"a","pid":1,"tid":1,"ts":1795000000000000.001,"args":{"x":1,"y":1}}'
    end = '{"ph":"E","pid":1,"tid":1,"ts":1795000000000000.124,"args":{"y":2,"correlation":7}}'
    path.write_text(f"[{end},{begin}]")  # the file may be in any order of time
    (found,) = both_ways(path)["slice"]
    assert (found["ts"], found["dur"]) == (1_795_000_000_000_000_001, 123)
    assert json.loads(found["args"]) == {"x": 1, "y": 2, "correlation": 7}
    assert found["correlation"] == 7


@pytest.mark.parametrize(
    ("events", "wanted", "check"),
    [
        ([border("B", "a", ts=1), border("B", "b", ts=2), border("E", ts=5)], [("b", 3000)], 2),
        ([border("E", ts=1), border("B", "a", ts=2), border("E", ts=3)], [("a", 1000)], 2),
        # Named ends that cross: both slices are kept, and overlap.
        (
            [border("B", "a", ts=1), border("B", "b", ts=2), border("E", "a", ts=3),
             border("E", "b", ts=5)],
            [("a", 2000), ("b", 3000)], 4,
        ),
        # An end of another name or thread ends nothing.
        ([border("B", "a", ts=1), border("E", "z", ts=2), border("E", ts=3, tid=2)], [], 0),
        ([border("B", "a", ts=1), {"ph": "E", "pid": 1, "tid": 1}], [], 0),
    ],
)  # fmt: skip
def test_a_border_without_a_partner_is_counted(
    events: list[Event], wanted: list[tuple[str, int]], check: int, tmp_path: Path
) -> None:
    path = write(tmp_path, [traces.host("x", ts=0, dur=1), *events])
    found = both_ways(path)
    assert [(row["name"], row["dur"]) for row in found["slice"]][1:] == wanted
    (said,) = [row for row in found["load_check"] if row["check_name"] == "begin and end events"]
    assert (said["value"], said["total"], said["ok"]) == (check, len(events), check == len(events))


def test_a_file_of_ends_alone_is_not_called_empty(tmp_path: Path) -> None:
    path = write(tmp_path, [border("E", ts=1)])
    said = called("load", path, "-o", tmp_path / "run.duckdb").stdout.decode()
    assert "no events: the ledger says what the file has instead" in said
    assert "stopped" not in said


def test_asynchronous_operations_have_tracks_of_their_own(tmp_path: Path) -> None:
    def operation(phase: str, name: str, ts: float, **more: Any) -> Event:
        return border(phase, name, ts=ts, **{"cat": "request", **more})

    events = [
        operation("b", "prefill", 1, id="0x1"),
        operation("b", "prefill", 2, id="0x2"),  # overlaps the first request
        operation("b", "inner", 3, id="0x1"),
        operation("n", "token", 4, id="0x1"),
        operation("e", "inner", 5, id="0x1", tid=2),  # ends on another thread
        operation("e", "prefill", 6, id="0x1"),
        operation("e", "prefill", 9, id="0x2"),
        operation("b", "local", 1, id2={"local": "7"}),
        operation("e", "local", 2, id2={"local": "7"}),
        operation("S", "old", 1, cat="legacy", id=5),
        operation("F", "old", 8, cat="legacy", id=5),
        border("X", "thread's own", ts=0, dur=20),
    ]
    run = loaded(write(tmp_path, events), tmp_path)
    found = rows(
        run,
        "SELECT track.tid, slice.name, dur, depth FROM slice JOIN track ON track.id = track_id "
        "ORDER BY ALL",
    )
    assert found == [
        ("1", "thread's own", 20_000, 0),
        ("legacy 5", "old", 7000, 0),
        ("request 0x1", "inner", 2000, 1),
        ("request 0x1", "prefill", 5000, 0),
        ("request 0x2", "prefill", 7000, 0),
        ("request 7", "local", 1000, 0),
    ]
    assert rows(run, "SELECT name, ts FROM instant") == [("token", 4000)]
    assert ledger(run, "begin and end events") == (10, 10, True)
    assert rows(run, "SELECT COUNT(*) FROM ledger WHERE NOT ok") == [(0,)]


def test_series_of_counters(tmp_path: Path) -> None:
    """Kineto's samples of hardware counters have one series without a name."""
    events = [
        traces.kernel(ts=0, dur=10),
        sample(1, "sm__cycles_active.avg", pid="GPU 0 Counters", **{"": 12.5}),
        sample(2, used=3, free="7"),
        sample(3, "one", value=1) | {"id": 4},
        sample(4, "bad", nan=float("nan"), text="x", deep={"a": 1}, truth=True),
        {"ph": "C", "name": "without series", "pid": 1, "ts": 5},
    ]
    path = write(tmp_path, events)
    assert [tuple(row.values())[:4] for row in both_ways(path)["counter"]] == [
        ("sm__cycles_active.avg", None, 1000, 12.5),
        ("queue used", None, 2000, 3.0),
        ("queue free", None, 2000, 7.0),
        ("one 4", None, 3000, 1.0),
    ]
    run = loaded(path, tmp_path)
    assert ledger(run, "counters") == (4, 9, False)
    found = rows(
        run,
        "SELECT process_name, pid FROM counter JOIN track ON track.id = track_id LIMIT 1",
    )
    assert found == [(None, "GPU 0 Counters")]


# --- names that the profiler did not escape ------------------------------------------------------


@pytest.mark.parametrize("name", ["quotes", "backslashes"])
def test_names_of_a_report_that_are_not_escaped(name: str, tmp_path: Path) -> None:
    path = report("names-not-escaped", f"{name}.json")
    run = loaded(path, tmp_path)
    (frame,) = rows(run, "SELECT name FROM slice WHERE cat = 'python_function'")[0]
    wanted = {
        "quotes": '{"a": "cpu", "b": "x"}(12): run',
        "backslashes": r"pkg\core\util.py(9): _run",
    }
    assert frame == wanted[name]
    assert rows(run, "SELECT COUNT(*) FROM slice") == [(62,)]
    assert rows(run, "SELECT COUNT(*), SUM(dur), MAX(ts + dur) - MIN(ts) FROM kernel") == [
        (20, 200_000, 295_000)
    ]
    assert ledger(run, "texts not escaped") == (1, 1, None)


def kineto(*events: tuple[str, str], after: str = "") -> str:
    """Frames as PyTorch writes them, from their names and arguments, which are not escaped."""
    each = [
        f'''
  {{
    "ph": "X", "cat": "python_function", "name": "{name}", "pid": 7, "tid": 8,
    "ts": {100 + 10 * number}.001, "dur": 5.000
    ,
    "args": {{
      "External id": 3,{args} "Ev Idx": {number}
    }}
  }}'''
        for number, (name, args) in enumerate(events)
    ]
    about = '"schemaVersion": 1,\n  "displayTimeUnit": "ms"'
    return f'{{\n  {about},\n  "traceEvents": [{",".join(each)}\n  ]{after}\n}}\n'


GOOD = ("torch/nn/modules/linear.py(114): forward", "")
UNESCAPED = {
    "quotes": ('{"device": "cpu", "b": "x"}(12): run', '{"device": "cpu", "b": "x"}(12): run'),
    "one quote": ('a"b(1): f', 'a"b(1): f'),
    "paths": (r"C:\Users\me\train.py(9): f", r"C:\Users\me\train.py(9): f"),
    "a last backslash": ("C:\\Users\\", "C:\\Users\\"),
    "control characters": ("a\tb\nc\x01", "a\tb\nc\x01"),
    "several bytes": ('naïve "日本"(3): f', 'naïve "日本"(3): f'),
}


@pytest.mark.parametrize("kind", UNESCAPED)
@pytest.mark.parametrize("batch_bytes", [50, 1 << 20])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_names_without_escapes_are_read_as_they_are(
    kind: str, batch_bytes: int, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(unescaped, "_LEAST_BYTES", batch_bytes)
    text, wanted = UNESCAPED[kind]
    frames = [GOOD] * 3
    frames.insert(place, (text, ""))
    path = tmp_path / "trace.json"
    path.write_text(kineto(*frames), newline="")
    found = both_ways(path)
    assert [row["name"] for row in found["slice"]].index(wanted) == place
    assert {row["ts"] % 10_000 for row in found["slice"]} == {1}
    assert check_value(found, "texts not escaped") == [1]


def test_no_backslash_is_an_escape_where_one_is_none(tmp_path: Path) -> None:
    """Some paths look like JSON: without the other names, they would be read as line breaks."""
    path = tmp_path / "trace.json"
    paths = [r"C:\new\table.py(1): f", r"\\server\share\x.py(2): g", r"D:\q\u.py(3): h"]
    path.write_text(kineto(*((each, "") for each in paths)))
    found = both_ways(path)
    assert [row["name"] for row in found["slice"]] == paths
    # In a file that escapes, a control character alone does not change that.
    path.write_text(kineto((r"a\"b\\c", ""), ("x\ty", "")))
    assert [row["name"] for row in both_ways(path)["slice"]] == [r'a"b\c', "x\ty"]


def test_arguments_and_metadata_without_escapes(tmp_path: Path) -> None:
    calls = r'"Call stack": "C:\Users\a.py(1): f;<x "y">(2): g", "Module Hierarchy": "A::B",'
    path = tmp_path / "trace.json"
    path.write_text(kineto(GOOD, ("f", calls), after=r', "traceName": "C:\Users\trace.json"'))
    found = both_ways(path)
    assert json.loads(found["slice"][1]["args"]) == {
        "External id": 3,
        "Call stack": r'C:\Users\a.py(1): f;<x "y">(2): g',
        "Module Hierarchy": "A::B",
        "Ev Idx": 1,
    }
    assert (
        next(read_kineto(path, trace_processor=None)).metadata["traceName"]
        == r"C:\Users\trace.json"
    )
    assert [r["value"] for r in found["load_check"] if r["check_name"] == "texts not escaped"] == [
        2
    ]


def test_bytes_that_are_not_utf8_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(kineto(("caf?(1): ??", "")).encode().replace(b"?", b"\xe9"))
    found = both_ways(path)
    assert found["slice"][0]["name"] == r"caf\xe9(1): \xe9\xe9"
    assert check_value(found, "bytes not UTF-8") == [3]


@pytest.mark.parametrize("frame", [GOOD, ('a "quoted" name', "")])
@pytest.mark.parametrize("left", [0.35, 0.6, 0.9, 0.99])
def test_a_repair_hides_no_truncation(frame: tuple[str, str], left: float, tmp_path: Path) -> None:
    text = kineto(frame, GOOD, frame)
    path = tmp_path / "trace.json"
    path.write_text(text[: int(len(text) * left)])
    with pytest.raises(TraceCorrupt, match=r"truncated or damaged JSON \(.*\); copy it again"):
        both_ways(path)


@pytest.mark.parametrize(
    "damage", [('"dur"', '}dur"'), (': forward", "pid": 7, "tid"', ""), ("python", 'py"thon')]
)
def test_damage_is_not_taken_for_a_name(damage: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(kineto(*[GOOD] * 3).replace(*damage, 1))
    with pytest.raises(TraceCorrupt, match="truncated or damaged JSON"):
        both_ways(path)


def test_a_name_that_cannot_be_repaired_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(kineto(GOOD, ('{"id": 3, "ts": 4}(1): f', ""), GOOD))
    with pytest.raises(TraceCorrupt, match=r"line 14: the name of an event .*with_stack=False"):
        both_ways(path)


# --- arrays without an end -----------------------------------------------------------------------


def test_the_open_array_of_a_report(tmp_path: Path) -> None:
    run = loaded(report("open-array", "trace.json"), tmp_path)
    assert rows(run, "SELECT COUNT(*) FROM slice") == [(150,)]
    assert rows(run, "SELECT COUNT(*), SUM(dur), MAX(ts + dur) - MIN(ts) FROM kernel") == [
        (50, 500_000, 745_000)
    ]
    assert ledger(run, "end of the file") == (0, 1, None)


@pytest.mark.parametrize("end", ["", ",", ",\n", "\r\n"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch_bytes", [20, 1 << 20])
def test_an_array_may_end_after_any_event(
    end: str, count: int, packed: bool, batch_bytes: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", batch_bytes)
    text = "[" + ",\n".join([json.dumps(traces.host("x", ts=1, dur=2))] * count) + end
    path = tmp_path / ("trace.json.gz" if packed else "trace.json")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    found = both_ways(path)
    assert len(found["slice"]) == count
    assert "end of the file" in [row["check_name"] for row in found["load_check"]]


_EVENT = json.dumps(traces.host("x", ts=1, dur=2))


@pytest.mark.parametrize(
    "text", [f"[{_EVENT},\n]", f'{{"traceEvents": [{_EVENT}, {_EVENT} , ], "traceName": "x"}}']
)
def test_a_comma_behind_the_last_event_is_no_damage(text: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    found = both_ways(path)
    assert len(found["slice"]) == text.count(_EVENT)
    assert check_value(found, "comma behind the last event") == [1]


@pytest.mark.parametrize(
    "text",
    [
        *(f"[{_EVENT},,", "[", "[" + _EVENT[:-1]),
        f'{{"traceEvents": [{_EVENT},',
    ],
)
def test_what_ends_elsewhere_is_truncated(text: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(TraceCorrupt, match="truncated or damaged JSON"):
        both_ways(path)


@pytest.mark.parametrize("cut", [1, 20, len(_EVENT) - 2])
def test_an_event_that_is_cut_off_at_the_end_of_an_array_fails_the_ledger(
    cut: int, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f"[{_EVENT},\n{_EVENT},\n{_EVENT[:-cut]}")
    found = both_ways(path)
    assert len(found["slice"]) == 2
    run = loaded(path, tmp_path)
    assert ledger(run, "end of the file") == (0, 1, False)
