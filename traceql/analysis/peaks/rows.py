"""Parses and checks CSV files of peaks: the one beside this file and those of the user."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from traceql.errors import PeaksInvalid

SHIPPED = Path(__file__).with_name("peaks.csv")
DTYPES = ("bf16", "fp8", "int8", "fp4")
_REQUIRED = ("device", "dtype")
_NUMBERS = ("tflops", "hbm_gbps", "link_gbps", "l2_mib", "memory_gb", "kernel_ns")
_COLUMNS = (*_REQUIRED, *_NUMBERS, "example", "source")
_LARGEST = 1e9  # in any of the units; bytes and FLOPs computed with it stay within 64 bits


@dataclass(frozen=True)
class PeakRow:
    """What one kind of device reaches with one type of numbers; None if unknown.

    Attributes:
        device: an RE2 regular expression, which may match anywhere in the device's name.
        example: the name of such a device.
        dtype: type of the numbers that the matrix units multiply; bf16 stands for fp16 too.
        tflops: dense peak, 1e12 floating-point operations per second; a multiply-add is two.
        hbm_gbps: peak of the memory, reading and writing together, 1e9 bytes per second.
        link_gbps: peak of the link to other devices in one direction, 1e9 bytes per second.
        l2_bytes: size of the last cache before the memory.
        memory_bytes: size of the memory.
        kernel_ns: duration of a kernel that has nothing to do.
    """

    device: str
    example: str | None
    dtype: str
    tflops: float | None
    hbm_gbps: float | None
    link_gbps: float | None
    l2_bytes: int | None
    memory_bytes: int | None
    kernel_ns: int | None
    source: str | None


def peak_rows(path: Path, found: str) -> Sequence[PeakRow]:
    """The rows of a CSV file that has this text. All columns but device and dtype may be empty.

    Raises:
        PeaksInvalid: a row is not one of peaks; the message names the path.
    """
    try:
        reader = csv.DictReader(StringIO(found, newline=""), strict=True)
        header, cells = reader.fieldnames or (), list(reader)
    except csv.Error as error:
        raise PeaksInvalid(f"cannot read the peaks in {path}: {error}") from None
    _require_header(path, header)
    rows = [_row(f"{path}, row {n}", row) for n, row in enumerate(cells, start=1)]
    seen: set[tuple[str, str]] = set()
    for number, row in enumerate(rows, start=1):
        if (row.device, row.dtype) in seen:
            raise PeaksInvalid(
                f"{path}, row {number}: an earlier row has the same device and dtype"
            )
        seen.add((row.device, row.dtype))
    return rows


def _require_header(path: Path, header: Sequence[str]) -> None:
    if not set(header) >= set(_REQUIRED):
        raise PeaksInvalid(
            f"{path}: the first line must name the columns {' and '.join(_REQUIRED)}, and may name "
            f"{', '.join(name for name in _COLUMNS if name not in _REQUIRED)}"
        )
    unknown = [name for name in header if name not in _COLUMNS]
    if unknown:
        raise PeaksInvalid(
            f"{path}: unknown column '{_short(unknown[0])}'; the columns are {', '.join(_COLUMNS)}"
        )
    if len(set(header)) < len(header):
        raise PeaksInvalid(f"{path}: the first line names a column twice")


def _row(place: str, row: Mapping[str, str | None]) -> PeakRow:
    if None in row:
        raise PeaksInvalid(f"{place}: more cells than columns; quote commas")
    cells = {name: (row.get(name) or "").strip() for name in _COLUMNS}
    if not cells["device"]:
        raise PeaksInvalid(f"{place}: no device; give a regular expression for its name")
    if cells["dtype"] not in DTYPES:
        raise PeaksInvalid(
            f"{place}: unknown dtype '{_short(cells['dtype'])}'; use one of {', '.join(DTYPES)} "
            "(bf16 stands for fp16 too)"
        )
    number = {name: _number(place, name, cells[name]) for name in _NUMBERS}
    if not any(number.values()):
        raise PeaksInvalid(f"{place}: no value; give at least one of {', '.join(_NUMBERS)}")
    return PeakRow(
        device=cells["device"],
        example=cells["example"] or None,
        dtype=cells["dtype"],
        tflops=number["tflops"],
        hbm_gbps=number["hbm_gbps"],
        link_gbps=number["link_gbps"],
        l2_bytes=_whole(number["l2_mib"], 2**20),
        memory_bytes=_whole(number["memory_gb"], 10**9),
        kernel_ns=_whole(number["kernel_ns"], 1),
        source=cells["source"] or None,
    )


def _number(place: str, name: str, cell: str) -> float | None:
    if not cell:
        return None
    try:
        found = float(cell) if cell.isascii() else math.nan
    except ValueError:
        found = math.nan
    if not 0 < found <= _LARGEST:
        raise PeaksInvalid(
            f"{place}: {name} is '{_short(cell)}', not a number above 0 and up to {_LARGEST:,.0f}"
        )
    return found


def _whole(number: float | None, unit: int) -> int | None:
    return None if number is None else round(number * unit)


def _short(given: str) -> str:
    return given if len(given) <= 100 else f"{given[:100]}..."
