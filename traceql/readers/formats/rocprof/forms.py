"""Which of rocprofv3's outputs a file is, by its content, and which files are one recording.

rocprofv3 writes one file per process, in each form that was asked for, and as CSV one file per kind
of record. All of them have the same beginning of their names: `1234_results.db`,
`1234_results.json`, `1234_results.pftrace`, `1234_kernel_trace.csv`, `1234_hip_api_trace.csv`.
"""

import re
from enum import StrEnum
from pathlib import Path

from traceql.readers.first_bytes import begins_like_sqlite, head


class Form(StrEnum):
    """The form of an output, the fullest first."""

    ROCPD = "rocpd"
    JSON = "json"
    CSV = "csv"


_HEAD_BYTES = 4096
_SCHEMA_BYTES = 1 << 20  # SQLite has the tables that are made first near its beginning
_TABLE = re.compile(rb"CREATE TABLE\s+[\"'`\[]?rocpd_")
_TOOL = re.compile(rb'\{\s*"rocprofiler-sdk-tool"\s*:')
# Each file of records has columns of both kinds, whatever separates them.
_TIMES = (b"start_timestamp", b"counter_name")
_OTHERS = (b"correlation_id", b"allocation_size", b"alloc_flags")
# Kinds of records, in the order in which one of their files stands for all.
KINDS = (
    "kernel_trace",
    "memory_copy_trace",
    "hip_api_trace",
    "marker_api_trace",
    "hsa_api_trace",
    "rccl_api_trace",
    "memory_allocation_trace",
    "scratch_memory_trace",
    "counter_collection",
    "rocdecode_api_trace",
    "rocjpeg_api_trace",
)
AGENTS = "agent_info"
STATISTICS = "stats"
_CSV = re.compile(
    rf"(?P<run>(?:.*?_)?)(?P<kind>{'|'.join((*KINDS, AGENTS))}|[a-z_]+_{STATISTICS})\.csv(?:\.gz)?$"
)
_RESULT = re.compile(r"(?P<run>(?:.*?_)?)results\.(?:db|json|pftrace)(?:\.gz)?$")
_PACKED = ("", ".gz")
# Columns of the files without records.
_AGENT, _SUM = b"logical_node_id", b"totaldurationns"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_MARKS = b"\xef\xbb\xbf \r\n\t"


def form_of(path: Path) -> Form | None:
    """The form of a file; None if it is no output of rocprofv3 that this reader reads.

    So that a message says what they are, it also has a form if it holds no records, but processors
    or sums, or if another program saved it in UTF-16.
    """
    if begins_like_sqlite(path):
        return Form.ROCPD if _TABLE.search(head(path, _SCHEMA_BYTES)) else None
    text = _as_utf8(head(path, _HEAD_BYTES))
    if _TOOL.match(text.lstrip(_MARKS)):
        return Form.JSON
    kind = _kind_of(path)
    is_named = kind in KINDS and b"\0" not in text
    return Form.CSV if is_named or _has_header(text) or _is_aside(kind, text) else None


def is_utf16(text: bytes) -> bool:
    """Whether a text, or its beginning, is UTF-16 with a mark that says so."""
    return text.startswith(_UTF16_MARKS)


def _as_utf8(text: bytes) -> bytes:
    return text.decode("utf-16", "replace").encode() if is_utf16(text) else text


def _kind_of(path: Path) -> str | None:
    """The kind of a CSV file by its name."""
    name = _CSV.match(path.name)
    if name is None:
        return None
    return STATISTICS if name["kind"].endswith(f"_{STATISTICS}") else name["kind"]


def _is_aside(kind: str | None, text: bytes) -> bool:
    """Whether it is the list of processors or the sums, by its name and its header."""
    column = {AGENTS: _AGENT, STATISTICS: _SUM}.get(kind or "")
    return column is not None and column in text.lower()


def _has_header(text: bytes) -> bool:
    """Whether one of the first lines is a header, perhaps after what the program printed."""
    if text.lstrip().startswith((b"{", b"[")):
        return False
    return any(
        any(name in line for name in _TIMES) and any(name in line for name in _OTHERS)
        for line in text.lower().splitlines()
    )


def csv_files(path: Path) -> dict[str, Path]:
    """The files of the recording that a CSV file is part of, by kind; itself under its name.

    Its sums, which are not read, are there if there is nothing else.
    """
    name = _CSV.match(path.name)
    if name is None:
        return {KINDS[0]: path}
    found = {
        str(_kind_of(file)): file
        for file in sorted(path.parent.iterdir())
        if (other := _CSV.match(file.name)) and other["run"] == name["run"]
    }
    records = {kind: found[kind] for kind in (*KINDS, AGENTS) if kind in found}
    if _kind_of(path) == STATISTICS and not records.keys() & set(KINDS):
        return {STATISTICS: path}
    return records


def leader(path: Path) -> Path:
    """The file that stands for the recording: of CSV, the first by kind; else the file itself."""
    if _CSV.match(path.name) is None:
        return path
    return next(iter(csv_files(path).values()))


def files(path: Path) -> list[Path]:
    """The files of a recording: of CSV, all of them; else the file itself."""
    return [path] if _CSV.match(path.name) is None else [*csv_files(path).values()]


def is_superseded(path: Path) -> bool:
    """Whether a fuller form of the same recording is beside a file, or itself uncompressed."""
    result = _RESULT.match(path.name)
    name = result or _CSV.match(path.name)
    if name is None:
        return False
    names = [f"{name['run']}results.{ending}{end}" for ending in ("db", "json") for end in _PACKED]
    if result and ".pftrace" in path.suffixes:
        names += [f"{name['run']}{KINDS[0]}.csv{end}" for end in _PACKED]
        names.append(f"{name['run']}results.pftrace")
    fuller = names[: names.index(path.name)] if path.name in names else names
    beside = [path.with_name(one) for one in fuller]
    return any(file.is_file() and _is_read(file) for file in beside)


def _is_read(file: Path) -> bool:
    """Whether a file beside another is what its name says."""
    return file.suffix == ".pftrace" or form_of(file) is not None
