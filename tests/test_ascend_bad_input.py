"""Damaged and strange Ascend profiles: one line that says what is wrong, or no loss."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import ascend_like
import pytest
from ascend_like import Event, call, frequency, operation, part, task
from command_line import called

import traceql
from traceql.errors import TraceCorrupt
from traceql.readers.dialects.ascend.metadata import facts
from traceql.readers.formats.ascend.read import read_ascend
from traceql.readers.registry import reader_of

EVENTS = (
    call(ts=0, dur=50, connection=1),
    task("aclnnAdd_AddAiCore_Add", ts=100, dur=100, connection=1),
    operation("hcom_allReduce__123_0_1", ts=300, dur=100, connection=2),
    part("Notify_Wait", ts=300, dur=50, peer=1),
    part("Memcpy", ts=350, dur=50, peer=1),
    frequency(800, ts=0),
)


def refused(path: Path, folder: Path) -> str:
    """The one line of a load that fails, and leaves nothing."""
    done = called("load", path, "-o", folder / "out.duckdb")
    err = done.stderr.decode()
    assert (done.returncode, done.stdout, err.count("\n")) == (1, b"", 1), err
    assert not (folder / "out.duckdb").exists()
    return err


def values(path: Path, target: Path, sql: str) -> list[tuple[Any, ...]]:
    traceql.load(path, target)
    with traceql.Trace(target) as trace:
        assert (
            trace.sql("SELECT * FROM ledger WHERE ok IS FALSE AND check_name LIKE 'ev%'").rows()
            == []
        )
        return [tuple(row.values()) for row in trace.select(sql).rows()]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [200, -1, -200])
def test_a_truncated_trace_is_refused(kept: int, tmp_path: Path) -> None:
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS)
    trace.write_bytes(trace.read_bytes()[:kept])
    assert "truncated or damaged JSON" in refused(trace, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("ts", [None, "soon", "1e400", "nan"])
def test_an_event_without_a_time_is_refused(ts: str | None, tmp_path: Path) -> None:
    wrong = dict(EVENTS[1], ts=ts)
    if ts is None:
        del wrong["ts"]
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS, wrong)
    assert "trace_view.json" in refused(trace, tmp_path)


@pytest.mark.parametrize("ts", ["0.000", "-1736408883688177.930"])
@pytest.mark.parametrize("wrong", [EVENTS[1], EVENTS[-1]], ids=["task", "counter"])
def test_an_event_before_1970_is_refused(wrong: Event, ts: str, tmp_path: Path) -> None:
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS, dict(wrong, ts=ts))
    with pytest.raises(TraceCorrupt, match=r"trace_view.json: 1 of 7 events .* after 1970"):
        next(read_ascend(trace, trace_processor=None))


@pytest.mark.parametrize("events", [[], ascend_like.named(EVENTS)[len(EVENTS) :]])
def test_a_profile_without_events_is_refused(events: list[Event], tmp_path: Path) -> None:
    trace = ascend_like.write(tmp_path / "a_ascend_pt")
    trace.write_text(json.dumps(events))
    assert reader_of(trace).name == "ascend"
    with pytest.raises(TraceCorrupt, match=r"trace_view.json: has no events"):
        next(read_ascend(trace, trace_processor=None))


@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize("is_wrapped", [True, False])
def test_other_layouts_of_a_trace_are_read_exactly(
    is_text: bool, is_wrapped: bool, tmp_path: Path
) -> None:
    text = json.dumps(ascend_like.named(EVENTS))
    if not is_text:
        text = re.sub(r'"ts": "([0-9.]+)"', r'"ts": \1', text)
    trace = tmp_path / "trace.json"
    trace.write_text(f'{{"traceEvents": {text}}}' if is_wrapped else text)
    assert reader_of(trace).name == "ascend"
    slices = next(read_ascend(trace, trace_processor=None)).tables["slice"]
    assert slices["cat"].to_pylist().count("kernel") == 1
    assert min(slices["ts"].to_pylist()) == ascend_like.BASE_NS


def told(trace: Path) -> dict[str, bool | None]:
    rows = next(read_ascend(trace, trace_processor=None)).tables["load_check"].to_pylist()
    return {row["check_name"]: row["ok"] for row in rows}


@pytest.mark.parametrize("about", ["peer", "ranks", "groups"])
def test_a_job_smaller_than_its_communicators_is_told(about: str, tmp_path: Path) -> None:
    distributed: dict[str, Any] = {"distributed_args": {"rank": 0, "world_size": 2}}
    more = []
    if about == "peer":
        more = [part("Notify_Wait", ts=100, dur=5, peer=7)]
    if about == "ranks":
        more = [operation("hcom_allReduce__123_0_1", ts=99, dur=7, connection=3, rank_size=8)]
    if about == "groups":
        distributed["parallel_group_info"] = {"a": {"global_ranks": [0, 7]}}
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS, *more)
    (tmp_path / "a_ascend_pt" / "profiler_metadata.json").write_text(json.dumps(distributed))
    tables = next(read_ascend(trace, trace_processor=None))
    assert told(trace)["statements of the number of ranks"] is False
    assert facts(tables.metadata).world_size == 8


def test_a_negative_size_of_a_copy_is_unknown_and_told(tmp_path: Path) -> None:
    copies = [
        task("MEMCPY_ASYNC", ts=900 + size, dur=5, kind="SDMA_SQE", **{"size(B)": size})
        for size in (-7, 8)
    ]
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS, *copies)
    tables = next(read_ascend(trace, trace_processor=None)).tables
    assert sorted(filter(None, tables["activity"]["bytes"].to_pylist())) == [8]
    assert told(trace)["sizes of copies"] is False


def test_tasks_on_tracks_without_names_fail_the_ledger(tmp_path: Path) -> None:
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS)
    trace.write_text(json.dumps(EVENTS))
    assert told(trace)["no track Ascend Hardware"] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (("FRAMEWORK/x", "PROF_1/y"), "analyse"),
        (("ASCEND_PROFILER_OUTPUT/kernel_details.csv",), "its 1 CSV tables"),
        (("ASCEND_PROFILER_OUTPUT/notes.txt",), "trace_view.json"),
        (
            (
                "PROF_1/mindstudio_profiler_output/msprof_slice_0_2025.json",
                "PROF_1/mindstudio_profiler_output/msprof_slice_1_2025.json",
            ),
            "2 of them here",
        ),
    ],
)
def test_a_rank_without_a_trace_is_refused(
    layout: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    for name in layout:
        path = tmp_path / "in" / "b_ascend_pt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    ascend_like.write(tmp_path / "in" / "a_ascend_pt", *EVENTS)
    for given in (tmp_path / "in", tmp_path / "in" / "b_ascend_pt"):
        err = refused(given, tmp_path)
        assert said in err
        assert "b_ascend_pt" in err


@pytest.mark.parametrize("name", ["msprof_slice_0_20250109.json", "msprof_slice_12.json.gz"])
def test_a_slice_of_a_timeline_is_refused(name: str, tmp_path: Path) -> None:
    """By its name: it looks like a whole trace."""
    path = tmp_path / "in" / name
    path.parent.mkdir()
    content = json.dumps(ascend_like.named(EVENTS)).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    for given in (path, path.parent):
        err = refused(given, tmp_path)
        assert "one of the slices" in err
        assert '"slice_switch" to "off"' in err


@pytest.mark.parametrize("pid", ["1993459 aclGraph", "7 aclGraph_1"])
def test_dumps_of_graphs_are_recognised_by_their_process(pid: str, tmp_path: Path) -> None:
    dump = tmp_path / "graph_debug.json"
    dump.write_text(json.dumps([{"ph": "X", "name": "Mul", "pid": pid, "tid": "2", "ts": 0}]))
    assert "the dump of a captured graph" in refused(dump, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"a": 1}', '{"step1": {"collective": {"x@1": []}}}', "\0\xff"]
)
def test_damaged_files_beside_the_trace_cost_what_they_tell(content: str, tmp_path: Path) -> None:
    names = (
        *("communication.json", "kernel_details.csv", "memory_record.csv"),
        *("npu_module_mem.csv", "step_trace_time.csv"),
    )
    folder = tmp_path / "a_ascend_pt"
    ascend_like.write(folder, *EVENTS, rank=None, files=dict.fromkeys(names, content))
    for name in ("profiler_info_0.json", "profiler_metadata.json"):
        (folder / name).write_text(content)
    found = values(folder, tmp_path / "run.duckdb", "SELECT rank, COUNT(*) FROM slice GROUP BY 1")
    assert found == [(0, 5)]


@pytest.mark.slow
def test_ordinary_arrays_of_events_are_not_taken_for_ascend(tmp_path: Path) -> None:
    """Neither without text times, nor with them but without a word of Ascend."""
    event = {"ph": "X", "name": "f", "pid": 1, "tid": 1, "dur": 5}
    for ts in (1790857026000000.5, "1790857026000000.500"):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps([event | {"ts": ts}]))
        target = tmp_path / f"{type(ts).__name__}.duckdb"
        assert values(path, target, "SELECT reader FROM trace") == [("kineto",)]
