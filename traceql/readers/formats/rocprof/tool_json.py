"""Reads rocprofv3's JSON: a list of processes, each with lists of records by kind."""

import codecs
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.formats.kineto.kineto_json import repaired_json
from traceql.readers.formats.rocprof.forms import is_utf16
from traceql.readers.scratch import Scratch
from traceql.readers.unpacked import REMAKE, pieces

_PIECE_BYTES = 4 << 20
_BATCH_ROWS = 50_000
_NOTHING = msgspec.Raw(b"[]")


class _Process(msgspec.Struct):
    """What is in the file about one process; the lists of records are decoded later."""

    buffer_records: dict[str, msgspec.Raw]
    callback_records: dict[str, msgspec.Raw] = {}
    strings: dict[str, msgspec.Raw] = {}
    metadata: dict[str, msgspec.Raw] = {}
    agents: msgspec.Raw = _NOTHING
    kernel_symbols: msgspec.Raw = _NOTHING
    counters: msgspec.Raw = _NOTHING


class _Document(msgspec.Struct):
    processes: list[_Process] = msgspec.field(name="rocprofiler-sdk-tool")


_DOCUMENT = msgspec.json.Decoder(_Document, strict=False)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def fill_json(path: Path, scratch: Scratch) -> None:
    """Fills the table of JSON records, list after list.

    Raises:
        TraceCorrupt: the file is damaged or incomplete, or has another layout.
    """
    text = b"".join(pieces(path, _PIECE_BYTES)).removeprefix(codecs.BOM_UTF8)
    if is_utf16(text):
        raise TraceCorrupt(
            "is JSON of rocprofv3 in UTF-16, not UTF-8; load it as rocprofv3 wrote it"
        )
    scratch.con.begin()
    for number, process in enumerate(_decoded(text).processes):
        pid, command = (
            msgspec.json.decode(process.metadata.get(name, b"null")) for name in ("pid", "command")
        )
        program = next(iter(command), None) if isinstance(command, list) else command
        scratch.con.execute(
            "INSERT INTO process VALUES ($1, TRY_CAST($2 AS BIGINT), program($3))",
            [number, pid, program if isinstance(program, str) else None],
        )
        lists = process.buffer_records | {
            "counter_collection": process.callback_records.get("counter_collection", _NOTHING),
            "kinds": process.strings.get("buffer_records", _NOTHING),
            "messages": process.strings.get("marker_api", _NOTHING),
            "agents": process.agents,
            "kernel_symbols": process.kernel_symbols,
            "counters": process.counters,
        }
        for name, listed in lists.items():
            for records in _records(number, name, listed):
                scratch.insert("json_record", records)
    scratch.con.commit()
    for script in ("json.sql", "text.sql"):
        scratch.run(Path(__file__).with_name(script))


def _records(process: int, name: str, listed: msgspec.Raw) -> Iterator[pa.Table]:
    """The records of a list, batch by batch."""
    try:
        records = _LIST.decode(listed)
    except msgspec.DecodeError:
        if name == "messages":
            return
        raise TraceCorrupt(f"expected a list of records '{name}'; {REMAKE}") from None
    for first in range(0, len(records), _BATCH_ROWS):
        part = [str(one, "utf-8", "replace") for one in records[first : first + _BATCH_ROWS]]
        same = {"process": process, "list": name}
        columns = {key: pa.repeat(value, len(part)) for key, value in same.items()}
        rows = pa.array(range(first, first + len(part)))
        yield pa.table(columns | {"row": rows, "record": pa.array(part, pa.large_string())})


def _decoded(text: bytes) -> _Document:
    """The document; numbers that are none, as statistics without events have, are let through."""
    try:
        return _DOCUMENT.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        damaged = TraceCorrupt(f"damaged JSON of rocprofv3 ({error}); {REMAKE}")
        if isinstance(error, msgspec.ValidationError) or "truncated" in str(error):
            raise damaged from None
    try:
        return _DOCUMENT.decode(repaired_json(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise damaged from None
