"""Which of rocprofv3's outputs a file is, by its content, and which files are one recording.

rocprofv3 writes one file per process, in each form that was asked for, and as CSV one file per kind
of record. All of them have the same beginning of their names: `1234_results.db`,
`1234_results.json`, `1234_results.pftrace`, `1234_kernel_trace.csv`, `1234_hip_api_trace.csv`.
"""

import re
from enum import StrEnum
from pathlib import Path

from traceql.reader.first_bytes import begins_like_sqlite, head


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
_RESULT = re.compile(r"(?P<run>.*?)_?results\.(db|json|pftrace)$")
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
_CSV = re.compile(rf"(?P<run>.*?)_?(?P<kind>{'|'.join((*KINDS, AGENTS))})\.csv(?:\.gz)?$")


def form_of(path: Path) -> Form | None:
    """The form of a file; None if it is no output of rocprofv3 that this reader reads."""
    if begins_like_sqlite(path):
        return Form.ROCPD if _TABLE.search(head(path, _SCHEMA_BYTES)) else None
    text = head(path, _HEAD_BYTES)
    if _TOOL.match(text.lstrip(b"\xef\xbb\xbf \r\n\t")):
        return Form.JSON
    kind = _CSV.match(path.name)
    is_named = kind is not None and kind["kind"] != AGENTS and b"\0" not in text
    return Form.CSV if is_named or _has_header(text) else None


def _has_header(text: bytes) -> bool:
    """Whether one of the first lines is a header, perhaps after what the program printed."""
    if text.lstrip().startswith((b"{", b"[")):
        return False
    return any(
        any(name in line for name in _TIMES) and any(name in line for name in _OTHERS)
        for line in text.lower().splitlines()
    )


def csv_files(path: Path) -> dict[str, Path]:
    """The files of the recording that a CSV file is part of, by kind; itself under its name."""
    name = _CSV.match(path.name)
    if name is None:
        return {KINDS[0]: path}
    found = {
        other["kind"]: file
        for file in sorted(path.parent.iterdir())
        if (other := _CSV.match(file.name)) and other["run"] == name["run"]
    }
    return {kind: found[kind] for kind in (*KINDS, AGENTS) if kind in found}


def leader(path: Path) -> Path:
    """The file that stands for the recording: of CSV, the first by kind; else the file itself."""
    if _CSV.match(path.name) is None:
        return path
    return next(iter(csv_files(path).values()))


def is_superseded(path: Path) -> bool:
    """Whether a fuller form of the same recording is beside a file."""
    name = _RESULT.match(path.name) or _CSV.match(path.name)
    if name is None:
        return False
    beside = [path.with_name(f"{name['run']}_results.{ending}") for ending in ("db", "json")]
    if path.suffix == ".pftrace":
        beside += [path.with_name(f"{name['run']}_{KINDS[0]}.csv")]
    fuller = beside[: beside.index(path)] if path in beside else beside
    return any(file.is_file() and form_of(file) is not None for file in fuller)
