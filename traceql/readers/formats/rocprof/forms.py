"""Which of rocprofv3's outputs a file is, by its content, and which files are one recording.

rocprofv3 writes one file per process, in each form that was asked for, and as CSV one file per kind
of record. All of them have the same beginning of their names: `1234_results.db`,
`1234_results.json`, `1234_results.pftrace`, `1234_kernel_trace.csv`, `1234_hip_api_trace.csv`.
"""

import re
from pathlib import Path

from traceql.readers.first_bytes import begins_like_sqlite, head

_HEAD_BYTES = 4096
_SCHEMA_BYTES = 1 << 20  # SQLite has the tables that are made first near its beginning
_TABLE = re.compile(rb"CREATE TABLE\s+[\"'`\[]?rocpd_")
_TOOL = re.compile(rb'[\xef\xbb\xbf \r\n\t]*\{\s*"rocprofiler-sdk-tool"\s*:')
# Each file of records has columns of both kinds, whatever separates them.
_HEADER = re.compile(
    rb"^(?=.*(?:start_timestamp|counter_name)).*(?:correlation_id|allocation_size|alloc_flags)",
    re.MULTILINE,
)
# Kinds of records, in the order in which one of their files stands for all.
KINDS = (
    *("kernel_trace", "memory_copy_trace", "hip_api_trace", "marker_api_trace", "hsa_api_trace"),
    *("rccl_api_trace", "memory_allocation_trace", "scratch_memory_trace", "counter_collection"),
    *("rocdecode_api_trace", "rocjpeg_api_trace"),
)
AGENTS, STATISTICS = "agent_info", "stats"
_COLUMN = {AGENTS: b"logical_node_id", STATISTICS: b"totaldurationns"}  # of files without records
_NAME = re.compile(
    r"(?P<run>(?:.*?_)?)(?:(?P<result>results\.(?:db|json|pftrace))|"
    rf"(?P<kind>{'|'.join((*KINDS, AGENTS))}|[a-z_]+_(?P<sums>{STATISTICS}))\.csv)(?:\.gz)?$"
)


def form_of(path: Path) -> str | None:
    """`rocpd`, `json` or `csv`; None for other files.

    So that a message says what they are, it also has a form if it holds no records, but processors
    or sums, or if another program saved it in UTF-16.
    """
    if begins_like_sqlite(path):
        return "rocpd" if _TABLE.search(head(path, _SCHEMA_BYTES)) else None
    text = head(path, _HEAD_BYTES)
    if is_utf16(text):
        text = text.decode("utf-16", "replace").encode()
    if _TOOL.match(text):
        return "json"
    kind, text = kind_of(path), text.lower()
    is_csv = kind in KINDS and b"\0" not in text
    is_csv |= kind in _COLUMN and _COLUMN[kind] in text
    is_csv |= not text.lstrip().startswith((b"{", b"[")) and bool(_HEADER.search(text))
    return "csv" if is_csv else None


def is_utf16(text: bytes) -> bool:
    """Whether a text, or its beginning, is UTF-16 with a mark that says so."""
    return text.startswith((b"\xff\xfe", b"\xfe\xff"))


def kind_of(path: Path) -> str:
    """The kind of a CSV file by its name; empty for others."""
    name = _NAME.match(path.name)
    return (name["sums"] or name["kind"] or "") if name else ""


def csv_files(path: Path) -> dict[str, Path]:
    """The files of the recording that a CSV file is part of, by kind; itself under its name.

    Its sums, which are not read, are there if there is nothing else.
    """
    kind = kind_of(path)
    if not kind:
        return {KINDS[0]: path}
    run = _NAME.match(path.name)["run"]  # type: ignore[index]
    beside = sorted(path.parent.iterdir())
    names = [(file, _NAME.match(file.name)) for file in beside]
    found = {kind_of(file): file for file, name in names if name and name["run"] == run}
    records = {kind: found[kind] for kind in (*KINDS, AGENTS) if kind in found}
    is_alone = kind == STATISTICS and not records.keys() & set(KINDS)
    return {STATISTICS: path} if is_alone else records


def files(path: Path) -> list[Path]:
    """The files of a recording, the one first that stands for it: of CSV, all; else itself."""
    return [*csv_files(path).values()] if kind_of(path) else [path]


def is_superseded(path: Path) -> bool:
    """Whether a fuller form of the same recording is beside a file, or itself uncompressed."""
    name = _NAME.match(path.name)
    if name is None:
        return False
    names = ["results.db", "results.db.gz", "results.json", "results.json.gz"]
    if ".pftrace" in path.suffixes:
        names += [f"{KINDS[0]}.csv", f"{KINDS[0]}.csv.gz", "results.pftrace"]
    own = path.name.removeprefix(name["run"])
    fuller = names[: names.index(own)] if own in names else names
    beside = [path.with_name(name["run"] + one) for one in fuller]
    return any(f.is_file() and (f.suffix == ".pftrace" or form_of(f) is not None) for f in beside)
