"""A file is parsed in batches; where it is cut makes no difference to what is read."""

import codecs
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import traces

from traceql.errors import TraceCorrupt
from traceql.readers.formats.kineto import kineto_json
from traceql.readers.formats.kineto.read import read_kineto
from traceql.readers.unpacked import pieces

MISLEADING = [
    {"name": "}, {", "args": {"text": '"}, {"ph": "X", "ts": 1, "dur": 1}, {', "\\": "]}"}},
    {"name": "nested", "args": {"list": [{"a": 1}, {"b": [{"c": 2}, {}]}], "deep": {"d": {}}}},
    {"name": "escaped \\", "args": {"quote": '\\"}, {', "unicode": "\u00e9}, {\u2028"}},
    {"name": '{"traceEvents": [', "args": {"traceEvents": [{"ph": "X"}, {"ph": "X"}]}},
]


def events() -> list[dict[str, Any]]:
    """Kernels, flows that end before they begin in the file, instants, and misleading text."""
    found: list[dict[str, Any]] = []
    for number in range(12):
        at = 100 * number
        found += [
            traces.kernel(ts=at + 20, dur=5, correlation=number) | MISLEADING[number % 4],
            {"ph": "f", "bp": "e", "id": number, "pid": 0, "tid": 7, "ts": at + 20, "name": "ac2g"},
            {"ph": "i", "name": "}, {", "pid": 100, "tid": 100, "ts": at, "args": {"n": number}},
            traces.launch(ts=at, correlation=number),
            {"ph": "s", "id": number, "pid": 100, "tid": 100, "ts": at, "name": "ac2g"},
        ]
    return found


def tables(path: Path) -> dict[str, Any]:
    (trace,) = read_kineto(path, trace_processor=None)
    read = {name: table.to_pylist() for name, table in trace.tables.items()}
    return read | {"metadata": trace.metadata}


@pytest.mark.slow
@pytest.mark.parametrize("spacing", [(",", ":"), None])
@pytest.mark.parametrize("form", ["object", "array"])
def test_a_file_cut_at_every_event_reads_as_one_that_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, spacing: tuple[str, str] | None
) -> None:
    about: dict[str, Any] = {"note": "traceEvents", "inner": {"traceEvents": [{"ph": "X"}, {}]}}
    trace = events() if form == "array" else about | {"traceEvents": events(), "after": [{}, {}]}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace, indent=None if spacing else 1, separators=spacing))
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", 1 << 20)
    whole = tables(path)
    assert len(whole["slice"]) == 24
    assert len(whole["flow"]) == 12
    assert whole["metadata"] == ({} if form == "array" else about | {"after": [{}, {}]})
    for batch_bytes in (1, 150, 1000):
        monkeypatch.setattr(kineto_json, "_BATCH_BYTES", batch_bytes)
        assert tables(path) == whole


@pytest.mark.parametrize("piece", [1, 2, 7, 64, 1 << 20])
def test_gzip_members_may_end_anywhere_in_a_piece(tmp_path: Path, piece: int) -> None:
    text = json.dumps({"traceEvents": events()}).encode()
    marked = codecs.BOM_UTF8 + text
    members = [gzip.compress(part) for part in (b"", marked[:1], marked[1:10], b"", marked[10:])]
    path = tmp_path / "trace.json.gz"
    path.write_bytes(b"".join(members) + bytes(70))
    assert b"".join(pieces(path, 8 * piece)) == marked
    assert len(tables(path)["slice"]) == 24
    path.write_bytes(b"".join(members)[:-1])
    with pytest.raises(TraceCorrupt, match="damaged or truncated gzip"):
        b"".join(pieces(path, 8 * piece))


@pytest.mark.parametrize("batch_bytes", [1, 150, 1000, 1 << 20])
def test_what_is_no_json_is_repaired_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", batch_bytes)
    odd = [
        traces.kernel(ts=100 * n, dur=5) | {"args": {"a": "<a>", "b": n}, "name": "<name>"}
        for n in range(30)
    ]
    text = json.dumps({"traceEvents": odd, "x": "<a>"}).encode()
    text = text.replace(b'"<a>"', b"NaN").replace(b"<name>", rb"n\ud800" + b"\xff, }, {")
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    read = tables(path)
    assert [json.loads(s["args"]) for s in read["slice"]] == [
        {"a": "NaN", "b": n} for n in range(30)
    ]
    assert {s["name"] for s in read["slice"]} == {r"n\ud800\xff, }, {"}
    assert read["metadata"] == {"x": "NaN"}


def test_a_number_of_another_type_changes_no_other_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers count, however they are written; each argument stands for itself."""
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", 600)
    odd = {"device": "x", "stream": 7.5, "correlation": 3.0, "bytes": "<1e400>", "grid": [1, None]}
    kernels = [traces.kernel(ts=10 * n, dur=5, correlation=n) for n in range(40)]
    for kernel in kernels:
        kernel["args"]["device"] = 1.0
    kernels[20]["args"] |= odd | {"External id": 2**64, "block": [256, 1, 1]}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": kernels}).replace('"<1e400>"', "1e400"))
    read = tables(path)
    devices = [row["device"] for row in read["activity"]]
    assert devices == [None if n == 20 else 1 for n in range(40)]
    assert [row["correlation"] for row in read["slice"]] == [3 if n == 20 else n for n in range(40)]
    left = {name: read["activity"][20][name] for name in ("stream", "bytes", "grid", "block")}
    assert left == {"stream": None, "bytes": None, "grid": None, "block": [256, 1, 1]}
    assert read["slice"][20]["external_id"] is None


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ('"ph": null, ', r"`null` - at `\$\.traceEvents\[{number}\]\.ph`"),
        ('"args": {, ', r"truncated or damaged JSON \(.*\(byte {byte}\)\)"),
    ],
)
def test_errors_name_the_place_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, reason: str
) -> None:
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", 1000)
    number = 200
    texts = [json.dumps(traces.kernel(ts=10 * n, dur=5)) for n in range(2 * number)]
    texts[number] = "{" + damage + texts[number][1:]
    head = '{"schemaVersion": 1, "traceEvents": ['
    path = tmp_path / "trace.json"
    path.write_text(head + ", ".join(texts) + "]}")
    byte = len(head + ", ".join(texts[:number]) + ", {" + damage) - 2
    with pytest.raises(TraceCorrupt, match=reason.format(number=number, byte=byte)):
        tables(path)
