"""A damaged native trace never looks whole: its ledger says what is missing, or it is refused."""

import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

import traceql
from traceql.errors import LossyLoad, TraceCorrupt, TraceqlError
from traceql.readers import lost_data
from traceql.readers.formats.perfetto.read import read_native
from traceql.readers.trace_processor import TraceProcessor, arrow_table, open_trace_processor

Packets = list[TracePacket]
KERNELS, TRACK = 6, 5
CATEGORIES = {1: "kernel", 2: "user_annotation"}


def packet(**content: Any) -> TracePacket:
    content.setdefault("sequence_flags", TracePacket.SEQ_NEEDS_INCREMENTAL_STATE)
    return TracePacket(trusted_packet_sequence_id=1, **content)


def event(ts: int, kind: Any, **content: Any) -> TracePacket:
    return packet(timestamp=ts, track_event=TrackEvent(type=kind, track_uuid=TRACK, **content))


def begin(ts: int, category: int) -> TracePacket:
    return event(ts, TrackEvent.TYPE_SLICE_BEGIN, category_iids=[category], name_iid=category)


def end(ts: int) -> TracePacket:
    return event(ts, TrackEvent.TYPE_SLICE_END)


def whole() -> Packets:
    """The state's start, a track, texts, and kernels inside an annotation."""
    start = packet(sequence_flags=TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
    track = packet(track_descriptor={"uuid": TRACK, "name": "stream 7"})
    texts = [{"iid": iid, "name": name} for iid, name in CATEGORIES.items()]
    interned = packet(interned_data={"event_names": texts, "event_categories": texts})
    kernels = [p for n in range(KERNELS) for p in (begin(10 * n + 1, 1), end(10 * n + 9))]
    return [start, track, interned, begin(0, 2), *kernels, end(100)]


def written(folder: Path, packets: Packets) -> Path:
    path = folder / "rank0.pftrace"
    path.write_bytes(Trace(packet=packets).SerializeToString())
    return path


def ledger(folder: Path, packets: Packets) -> dict[str, tuple[Any, ...]]:
    """Each check of the loaded trace with its value, total and result."""
    traceql.load(written(folder, packets), folder / "run.duckdb")
    with traceql.open(folder / "run.duckdb") as trace:
        rows = trace.sql("SELECT check_name, value, total, ok FROM ledger").rows()
    return {row["check_name"]: (row["value"], row["total"], row["ok"]) for row in rows}


def failed(checks: dict[str, tuple[Any, ...]]) -> set[str]:
    """The checks of what was read that fail; those of what it means are not of interest here."""
    about_reading = ("duration", "ends", "events", "lost", "phase", "trace processor")
    return {c for c, (_, _, ok) in checks.items() if ok is False and c.startswith(about_reading)}


@pytest.mark.slow
def test_a_whole_trace_has_the_slices_that_its_packets_have(tmp_path: Path) -> None:
    checks = ledger(tmp_path, whole())
    assert checks["events kernel"] == (KERNELS, KERNELS, True)
    assert checks["events user_annotation"] == (1, 1, True)
    assert checks["duration kernel"] == (KERNELS * 8, None, None)
    assert checks["trace processor errors"] == (0, 0, True)
    assert "ends without a slice" not in checks
    assert not failed(checks)


@pytest.mark.slow
def test_slices_before_the_start_of_their_sequence_fail_the_ledger(tmp_path: Path) -> None:
    """Two kernels and the annotation come before the packet that their sequence starts with."""
    packets = whole()
    checks = ledger(tmp_path, [*packets[3:8], *packets[:3], *packets[8:]])
    lost = {"events unknown(1)": (0, 2, False), "events unknown(2)": (0, 1, False)}
    assert lost.items() <= checks.items()
    assert checks["events kernel"] == (KERNELS - 2, KERNELS - 2, True)
    assert failed(checks) >= {"trace processor errors", *lost}


@pytest.mark.parametrize("missing", ["the start", "all but events", "the flag of the start"])
def test_a_trace_of_which_nothing_can_be_read_is_refused(missing: str, tmp_path: Path) -> None:
    packets = whole()
    if missing == "the flag of the start":
        packets[0].ClearField("sequence_flags")
    else:
        packets = packets[1 if missing == "the start" else 3 :]
    with pytest.raises(LossyLoad, match=rf"none of its {KERNELS + 1} events .*record it again"):
        read_native(written(tmp_path, packets), trace_processor=None)


@pytest.mark.slow
def test_an_end_that_comes_first_is_no_loss(tmp_path: Path) -> None:
    packets = whole()
    checks = ledger(tmp_path, [*packets[:3], end(0), *packets[3:]])
    assert checks["ends without a slice"] == (1, KERNELS + 2, None)
    assert not failed(checks)


@pytest.mark.slow
def test_compressed_packets_are_counted(tmp_path: Path) -> None:
    content = Trace(packet=whole()).SerializeToString()
    packed = TracePacket(compressed_packets=zlib.compress(content))
    assert ledger(tmp_path, [packed])["events kernel"] == (KERNELS, KERNELS, True)


def compressed(content: bytes) -> bytes:
    """A trace of one packet, which is compressed."""
    return bytes(Trace(packet=[TracePacket(compressed_packets=content)]).SerializeToString())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x0a\x01\x0a", "packet 1 is damaged"),  # a field without a content
        (compressed(b"no zlib"), "damaged compression"),
        (compressed(zlib.compress(bytes(99))[:-6]), "ends too early"),
        (compressed(zlib.compress(bytes(99))), "damaged at byte 0"),
        (compressed(zlib.compress(bytes(65 << 20))), "more than 200 times its size"),
        (compressed(zlib.compress(compressed(zlib.compress(b"")))), "compressed twice"),
    ],
)
def test_a_damaged_packet_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, whole())
    path.write_bytes(content + path.read_bytes())
    with pytest.raises(TraceCorrupt, match=said):
        read_native(path, trace_processor=None)


# The smallest damages, found by drills, that once lost slices or names under a green ledger.
@pytest.mark.parametrize(
    ("number", "path", "value"),
    [
        (4, "timestamp", None),
        (4, "timestamp", 2**63),
        (4, "timestamp_clock_id", 6),
        (4, "trusted_packet_sequence_id", None),
        (4, "trusted_packet_sequence_id", 2),
        (4, "previous_packet_dropped", 1),
        (1, "track_descriptor.parent_uuid", TRACK),  # the track is inside itself
        (2, "interned_data.event_names.0.name", "ker\0nel"),
    ],
)
def test_what_is_lost_is_reported(number: int, path: str, value: Any, tmp_path: Path) -> None:
    packets = whole()
    *places, field = path.split(".")
    damaged: Any = packets[number]
    for place in places:
        damaged = damaged[int(place)] if place.isdigit() else getattr(damaged, place)
    if value is None:
        damaged.ClearField(field)
    else:
        setattr(damaged, field, value)
    name = packets[2].interned_data.event_names[0].name
    begins = [(10 * n + 1, name) for n in range(KERNELS)]
    try:
        tables = read_native(written(tmp_path, packets), trace_processor=None).tables
    except TraceqlError as refusal:
        assert all("please report" not in text for text in refusal.args)  # noqa: PT017
        return
    slices = tables["slice"].select(["ts", "name", "cat"]).to_pylist()
    kernels = [(row["ts"], row["name"]) for row in slices if row["cat"] == "kernel"]
    counts = {row["cat"]: row["events"] for row in tables["count"].to_pylist()}
    is_reported = not all(row["ok"] in (True, None) for row in tables["load_check"].to_pylist())
    is_reported |= any(
        count not in (None, sum(r["cat"] == cat for r in slices)) for cat, count in counts.items()
    )
    assert is_reported or kernels == begins


@pytest.mark.slow
def test_losses_of_the_recording_fail_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(tp: TraceProcessor, sql: str) -> pa.Table:
        assert sql == lost_data._STATISTICS
        name = ["traced_buf_trace_writer_packet_loss"]
        return pa.table({"name": name, "severity": ["data_loss"], "value": [3]})

    monkeypatch.setattr(lost_data, "arrow_table", answer)
    checks = ledger(tmp_path, whole())
    assert checks["lost while recording"] == (3, 0, False)
    assert checks["trace processor errors"] == (0, 0, True)


def test_every_diagnostic_that_speaks_of_failures_has_a_rule() -> None:
    """A newer trace processor may call a loss a diagnostic; someone has to decide what it is."""
    words = "error|fail|skip|drop|lost|loss|discard|missing|unpaired|unknown|truncated|invalid"
    with open_trace_processor([b'{"traceEvents":[]}']) as tp:
        names = arrow_table(
            tp, f"SELECT DISTINCT name FROM stats WHERE severity = 'info' AND name REGEXP '{words}'"
        )["name"].to_pylist()
    assert "tokenizer_skipped_packets" in names
    assert [name for name in names if lost_data.rule_of(name) is None] == []


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("[[1, 2], [3, [4, 5]]]", {"a": [[1, 2], [3, [4, 5]]]}),
        ('{"x": [1, 2], "y": 3}', {"a.x": [1, 2], "a.y": 3}),
        # A list cannot have this place, or would be far longer than the file.
        ('{"x[300000000]": 1}', {"a.x[300000000]": 1}),
        ('{"x[0]": 1, "x[0][1]": 2}', {"a.x": [1], "a.x[0][1]": 2}),
        ('{"x[0][1]": 2, "x[0]": 1}', {"a.x": [[None, 2]], "a.x[0]": 1}),
        ('{"x[\u0663]": 1}', {"a.x[\u0663]": 1}),
    ],
)
def test_keys_of_arguments(argument: str, expected: dict[str, Any], tmp_path: Path) -> None:
    begun = event(0, TrackEvent.TYPE_SLICE_BEGIN, name="n")
    begun.track_event.debug_annotations.add(name="a", legacy_json_value=argument)
    packets = [
        packet(track_descriptor={"uuid": 5, "name": "t"}, sequence_flags=1), begun,
        event(9, TrackEvent.TYPE_SLICE_END),
    ]  # fmt: skip
    tables = read_native(written(tmp_path, packets), trace_processor=None)
    (args,) = tables.tables["slice"]["args"].to_pylist()
    assert json.loads(args) == expected
