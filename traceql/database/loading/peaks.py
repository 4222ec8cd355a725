"""Loads a user's peaks: data sheets as CSV, measured ceilings as peaks.json."""

from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Annotated, Literal

import duckdb
from msgspec import Meta, Struct

from traceql.analysis.peaks.rows import PeakRow, peak_rows
from traceql.database.loading.run_directory import JsonDocument, checked, parsed
from traceql.errors import PeaksInvalid
from traceql.util.files import Unusable, path_text, read_text

SCHEMA_VERSION = 2  # version 1 lacks GPUs of copies, copies of the host, and sources
_Count = Annotated[int, Meta(ge=1, lt=2**62)]
_Size = Annotated[int, Meta(ge=1, lt=2**31)]
_Ns = Annotated[float, Meta(ge=1, le=1e15)]  # no kernel and no operation takes less than 1 ns
_Spread = Annotated[float, Meta(ge=0, le=1e15)]
_Mask = Annotated[int, Meta(ge=0, lt=2**62)]
_Gpu = Annotated[int, Meta(ge=0, lt=2**31)]


class _Measurement(Struct, frozen=True, kw_only=True):
    """A duration: the median and the median absolute deviation, ns."""

    ns: _Ns
    mad_ns: _Spread | None = None
    sm_clock_mhz: _Count | None = None
    throttle_reasons: _Mask | None = None


class _Ceiling(_Measurement, frozen=True, kw_only=True):
    fastest_ns: _Ns | None = None

    def __post_init__(self) -> None:
        if self.fastest_ns is not None and self.fastest_ns > self.ns:
            raise ValueError("`fastest_ns` is above `ns`, the median")


class _Kernel(_Measurement, frozen=True, kw_only=True):
    period_ns: _Ns | None = None


class Memory(_Ceiling, frozen=True, kw_only=True):
    """Reading, or copying, where bytes are read and written; traceql measures the first GPU."""

    op: Literal["copy", "read"]
    bytes: _Count
    gpu: _Gpu | None = None
    source: str | None = None


class Product(_Ceiling, frozen=True, kw_only=True):
    dtype: Literal["bf16", "fp8", "int8", "fp4"]
    m: _Size
    k: _Size
    n: _Size
    role: str | None = None
    load: Literal["burst", "sustained"] | None = None


class Collective(_Measurement, frozen=True, kw_only=True):
    """A collective of all ranks, or a copy from one GPU to another.

    Attributes:
        bytes: size of the whole buffer; of a copy or a send, in one direction.
        source: the program that measured it; None for traceql.
    """

    op: Literal[
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "send_recv",
        "peer_copy",
        "peer_copy_both",
    ]
    ranks: Annotated[int, Meta(ge=2, lt=2**31)]
    bytes: _Count
    algorithm: Literal["nccl", "custom", "copy", "copy_kernel"]
    kernel_ns: _Ns | None = None
    fastest_ns: _Ns | None = None
    from_gpu: _Gpu | None = None
    to_gpu: _Gpu | None = None
    source: str | None = None


class HostCopy(_Measurement, frozen=True, kw_only=True):
    """A copy between the memory of the host and that of a GPU; `bytes` counts one direction."""

    op: Literal["to_gpu", "from_gpu", "to_gpu_both", "from_gpu_both"]
    gpu: _Gpu
    bytes: _Count
    algorithm: Literal["copy", "copy_kernel"]
    source: str | None = None


class Source(Struct, frozen=True, kw_only=True):
    """A file of another program with measurements."""

    program: str
    file: str
    version: str | None = None
    started: str | None = None


class PeaksDocument(Struct, frozen=True, kw_only=True):
    """The measured ceilings of GPUs of one name in a machine."""

    schema_version: Annotated[int, Meta(ge=1)]
    device_name: Annotated[str, Meta(min_length=1)]
    measured: str
    memory_bytes: _Count | None = None
    l2_bytes: _Count | None = None
    kernel: _Kernel | None = None
    memory: list[Memory]
    products: list[Product]
    collectives: list[Collective]
    host_copies: list[HostCopy] = []
    skipped: list[str] = []
    sources: list[Source] = []


def peaks_document(found: str) -> tuple[JsonDocument, PeaksDocument]:
    """The contents of a peaks.json.

    Raises:
        Unusable: it is not a peaks.json, or a newer version of traceql wrote it.
    """
    document = parsed(found)
    if not isinstance(document.value, dict) or "schema_version" not in document.value:
        raise Unusable("it has no schema_version; give a peaks.json of traceql experiment peaks")
    peaks = checked(document.value, PeaksDocument)
    if peaks.schema_version > SCHEMA_VERSION:
        raise Unusable("it was written by a newer version of traceql; update traceql")
    return document, peaks


def write_peaks(con: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Replaces the user's rows and ceilings in the database, except those of run directories.

    Args:
        files: CSV files of peaks, and files that `traceql experiment peaks` wrote.

    Raises:
        PeaksInvalid: a file cannot be used; the message says which and why.
    """
    rows: list[PeakRow] = []
    measured: list[tuple[Path, JsonDocument, PeaksDocument]] = []
    for path in files:
        try:
            text = read_text(path)
            is_measured = text.lstrip().startswith("{")
            if is_measured:
                measured.append((path, *peaks_document(text)))
        except Unusable as error:
            raise PeaksInvalid(f"cannot read the peaks in {path}: {error}") from None
        if not is_measured:
            rows += _rows_of_file(con, path, text)
    con.execute("DELETE FROM user_peak")
    for position, row in enumerate(rows):
        places = ", ".join(["?"] * (1 + len(astuple(row))))
        con.execute(f"INSERT INTO user_peak VALUES ({places})", [position, *astuple(row)])
    con.execute("DELETE FROM peak_file WHERE run IS NULL")
    for path, document, peaks in measured:
        add_peak_file(con, path, None, document, peaks)


def add_peak_file(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    run: str | None,
    document: JsonDocument,
    peaks: PeaksDocument,
) -> None:
    """Adds measured ceilings to `peak_file`."""
    con.execute(
        "INSERT INTO peak_file VALUES (?, ?, ?, ?)",
        [path_text(path.absolute()), run, peaks.device_name, document.text],
    )


def _rows_of_file(con: duckdb.DuckDBPyConnection, path: Path, found: str) -> list[PeakRow]:
    """The rows of a CSV file; each source begins with its name."""
    rows = peak_rows(path, found)
    for number, row in enumerate(rows, start=1):
        try:
            con.execute("SELECT regexp_matches('', ?)", [row.device]).fetchall()
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise PeaksInvalid(f"{path}, row {number}: invalid device: {reason}") from None
    name = path_text(Path(path.name))
    return [replace(row, source=f"{name}: {row.source}" if row.source else name) for row in rows]
