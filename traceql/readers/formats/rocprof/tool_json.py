"""Reads rocprofv3's JSON: a list of processes, each with lists of records by kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from traceql.errors import TraceCorrupt
from traceql.readers.formats.kineto.kineto_json import repaired_json
from traceql.readers.formats.rocprof import tool_records as tool
from traceql.readers.formats.rocprof.forms import Form, is_utf16
from traceql.readers.formats.rocprof.recording import Agent, Process, Recording
from traceql.readers.formats.rocprof.rocpd import program
from traceql.readers.formats.rocprof.tool_process import JsonProcess
from traceql.readers.unpacked import ANEW, pieces

_PIECE_BYTES = 4 << 20
_GPU = 2  # of a processor's type
_DOCUMENT = msgspec.json.Decoder(tool.Document, strict=False)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_json(path: Path) -> Recording:
    """The processes of a file.

    Raises:
        TraceCorrupt: the file is damaged or incomplete, or has another layout.
    """
    text = b"".join(pieces(path, _PIECE_BYTES)).removeprefix(_BYTE_ORDER_MARK)
    if is_utf16(text):
        raise TraceCorrupt(
            "is JSON of rocprofv3 in UTF-16, not UTF-8; load it as rocprofv3 wrote it"
        )
    document = _decoded(text)
    return Recording(Form.JSON, [_process(one) for one in document.processes])


def _decoded(text: bytes) -> tool.Document:
    """The document; numbers that are none, as statistics without events have, are let through."""
    try:
        return _DOCUMENT.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        first = error
    if isinstance(first, msgspec.ValidationError) or b"truncated" in str(first).encode():
        raise TraceCorrupt(_damaged(first))
    try:
        return _DOCUMENT.decode(repaired_json(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise TraceCorrupt(_damaged(first)) from None


def _damaged(error: Exception) -> str:
    return f"damaged JSON of rocprofv3 ({error}); {ANEW}"


def _process(one: tool.ToolProcess) -> Process:
    command = one.metadata.command
    words = command if isinstance(command, list) else [command]
    return JsonProcess(one, _agents(one.agents)).process(program(words[0]) if words else None)


def _agents(listed: Sequence[tool.Agent]) -> Mapping[int, Agent]:
    found, gpus = {}, 0
    for one in listed:
        is_gpu = one.type == _GPU
        device = gpus if one.logical_node_type_id is None else one.logical_node_type_id
        gpus += is_gpu
        name = one.product_name or one.name
        found[one.id.handle] = Agent(device if is_gpu else None, name, one.name)
    return found
