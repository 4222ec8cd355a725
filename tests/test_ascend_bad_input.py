"""Damaged and strange Ascend profiles: one line that says what is wrong, or no loss."""

import gzip
import json
import re
from pathlib import Path

import ascend_like
import pytest
from ascend_like import Event, call, frequency, operation, part, task
from command_line import refusal

from traceql.errors import TraceCorrupt
from traceql.readers.dialects.ascend.metadata import facts
from traceql.readers.formats.ascend.read import read_ascend
from traceql.readers.registry import reader_of
from traceql.readers.tables import TraceTables

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
    line = refusal("load", path, "-o", folder / "out.duckdb")
    assert not (folder / "out.duckdb").exists()
    return line


def read(trace: Path) -> TraceTables:
    (tables,) = read_ascend(trace, trace_processor=None)
    return tables


def checks(trace: Path) -> dict[str, bool | None]:
    rows = read(trace).tables["load_check"].to_pylist()
    return {row["check_name"]: row["ok"] for row in rows}


def test_a_truncated_trace_is_refused(tmp_path: Path) -> None:
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS)
    trace.write_bytes(trace.read_bytes()[:-1])
    assert "truncated or damaged JSON" in refused(trace, tmp_path)


_EARLY = r"trace_view.json: 1 of 7 events .* after 1970"


@pytest.mark.parametrize(
    ("wrong", "ts", "reason"),
    [
        *((EVENTS[1], ts, r"trace_view\.json") for ts in (None, "soon", "1e400")),
        (EVENTS[1], "0.000", _EARLY),
        (EVENTS[-1], "-1736408883688177.930", _EARLY),
    ],
)
def test_an_event_without_a_time_after_1970_is_refused(
    wrong: Event, ts: str | None, reason: str, tmp_path: Path
) -> None:
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS, dict(wrong, ts=ts))
    with pytest.raises(TraceCorrupt, match=reason):
        read(trace)


@pytest.mark.parametrize("events", [[], ascend_like.named(EVENTS)[len(EVENTS) :]])
def test_a_profile_without_events_is_refused(events: list[Event], tmp_path: Path) -> None:
    trace = ascend_like.write(tmp_path / "a_ascend_pt")
    trace.write_text(json.dumps(events))
    assert reader_of(trace).name == "ascend"
    with pytest.raises(TraceCorrupt, match=r"trace_view.json: has no events"):
        read(trace)


@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize("form", ["%s", '{"traceEvents": %s}'])
def test_other_layouts_of_a_trace_are_read_exactly(
    is_text: bool, form: str, tmp_path: Path
) -> None:
    text = json.dumps(ascend_like.named(EVENTS))
    trace = tmp_path / "trace.json"
    trace.write_text(form % (text if is_text else re.sub(r'"ts": "([0-9.]+)"', r'"ts": \1', text)))
    assert reader_of(trace).name == "ascend"
    slices = read(trace).tables["slice"]
    assert slices["cat"].to_pylist().count("kernel") == 1
    assert min(slices["ts"].to_pylist()) == ascend_like.BASE_NS


_PEER = part("Notify_Wait", ts=100, dur=5, peer=7)
_LARGE = operation("hcom_allReduce__123_0_1", ts=99, dur=7, connection=3, rank_size=8)


@pytest.mark.parametrize(("more", "ranks"), [([_PEER], [0]), ([_LARGE], [0]), ([], [0, 7])])
def test_a_job_smaller_than_its_communicators_is_reported(
    more: list[Event], ranks: list[int], tmp_path: Path
) -> None:
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS, *more)
    distributed = {"distributed_args": {"rank": 0, "world_size": 2}}
    stated = distributed | {"parallel_group_info": {"a": {"global_ranks": ranks}}}
    (tmp_path / "a_ascend_pt" / "profiler_metadata.json").write_text(json.dumps(stated))
    assert checks(trace)["statements of the number of ranks"] is False
    assert facts(read(trace).metadata).world_size == 8


def test_negative_sizes_of_copies_and_tracks_without_names_fail_the_ledger(tmp_path: Path) -> None:
    copies = [
        task("MEMCPY_ASYNC", ts=900 + size, dur=5, kind="SDMA_SQE", **{"size(B)": size})
        for size in (-7, 8)
    ]
    trace = ascend_like.write(tmp_path / "a_ascend_pt", *EVENTS, *copies)
    assert [*filter(None, read(trace).tables["activity"]["bytes"].to_pylist())] == [8]
    assert checks(trace)["sizes of copies"] is False
    trace.write_text(json.dumps(EVENTS))
    assert checks(trace)["no track Ascend Hardware"] is False


_OUTPUT = "PROF_1/mindstudio_profiler_output/msprof_slice"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (("FRAMEWORK/x", "PROF_1/y"), "analyse"),
        (("ASCEND_PROFILER_OUTPUT/kernel_details.csv",), "its 1 CSV tables"),
        (("ASCEND_PROFILER_OUTPUT/notes.txt",), "trace_view.json"),
        ((f"{_OUTPUT}_0_2025.json", f"{_OUTPUT}_1_2025.json"), "2 of them here"),
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
    err = refused(tmp_path / "in", tmp_path)
    assert said in err
    assert "b_ascend_pt" in err


def test_a_slice_of_a_timeline_is_refused(tmp_path: Path) -> None:
    """By its name: it looks like a whole trace."""
    path = tmp_path / "msprof_slice_12.json.gz"
    path.write_bytes(gzip.compress(json.dumps(ascend_like.named(EVENTS)).encode()))
    err = refused(path, tmp_path)
    assert "one of the slices" in err
    assert '"slice_switch" to "off"' in err


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"a": 1}', '{"step1": {"collective": {"x@1": []}}}', "\0\xff"]
)
def test_damaged_files_beside_the_trace_cost_only_their_content(
    content: str, tmp_path: Path
) -> None:
    tables = ("kernel_details", "memory_record", "npu_module_mem", "step_trace_time")
    files = dict.fromkeys(("communication.json", *(f"{name}.csv" for name in tables)), content)
    trace = ascend_like.write(tmp_path, *EVENTS, rank=None, files=files)
    for name in ("profiler_info_0.json", "profiler_metadata.json"):
        (tmp_path / name).write_text(content)
    assert read(trace).tables["slice"].num_rows == 5


def test_a_file_beside_the_trace_that_was_cut_fails_the_ledger(tmp_path: Path) -> None:
    rows = "Name,Start Time(us),Duration(us)\nMatMul,1790857026000000.5,2\nAdd,17908570"
    trace = ascend_like.write(tmp_path, *EVENTS, rank=None, files={"kernel_details.csv": rows})
    checks = read(trace).tables["load_check"].to_pylist()
    (cut,) = [row for row in checks if row["ok"] is False and "beside" in row["check_name"]]
    assert cut["note"] == "not used: kernel_details.csv: its last line, which is cut off"


@pytest.mark.parametrize("ts", [1790857026000000.5, "1790857026000000.500"])
def test_ordinary_arrays_of_events_are_not_taken_for_ascend(
    ts: float | str, tmp_path: Path
) -> None:
    """Neither without text times, nor with them but without a word of Ascend."""
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps([{"ph": "X", "name": "f", "pid": 1, "tid": 1, "dur": 5, "ts": ts}]))
    assert reader_of(trace).name == "kineto"
