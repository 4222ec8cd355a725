"""Reads a CSV of Nsight Compute: the raw page and the details page."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from traceql.readers.ncu.csv_text import CsvText
from traceql.readers.ncu.values import (
    LAUNCH,
    Evidence,
    Mark,
    MetricRows,
    Remark,
    evidence,
    is_series,
)
from traceql.util.files import Unusable

_RANGE = re.compile(r'"([^"]*)"')
# Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg. A name may hold colons.
_FIELDS = re.compile(
    r"(?:<default domain>|[^:]*):(?P<name>.*):(?:none|[A-Z0-9_]+):[^:]*"
    r":(?:none|[A-Z]+):[^:]*:(?:none|[A-Z_]+):(?P<message>.*)"
)


def ranges(cell: str) -> list[str]:
    """The names of the ranges around a launch, the outermost one first."""
    found = [(text, _FIELDS.fullmatch(text)) for text in _RANGE.findall(cell)]
    return [fields["name"] if fields else text for text, fields in found]


_OF_LAUNCH = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context"),
    *("Stream", "Block Size", "Grid Size", "Device", "CC"),
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
)
_RANGES = _OF_LAUNCH[-2:]
_SIZES = re.compile(r"\((\d+), *(\d+), *(\d+)\)")
_NAME = "device__attribute_display_name"
_WHOLE = ("graph", "range")  # in place of the name of a kernel
_UNITS_MISSING = Remark(
    "units of the profile", 0, 1, False,
    "rows with units; that below the header is missing, so that no size or time is known; print "
    "the profile again",
)  # fmt: skip
_Row = dict[str, str]


class CsvProfile(NamedTuple):
    """The contents of a CSV; see traceql.readers.ncu.values."""

    page: str
    launches: pa.Table
    metrics: pa.Table
    remarks: list[Remark]


class _Cell(NamedTuple):
    launch: int
    section: str | None
    metric: str
    unit: str
    text: str


def csv_profile(text: CsvText) -> CsvProfile:
    """The launches and metrics of a CSV.

    Raises:
        Unusable: it has no launch, or no metric.
    """
    is_details = "Metric Name" in text.header
    page, cells_of = ("details", _details) if is_details else ("raw", _raw)
    launches: list[_Row] = []
    device_names: dict[int, str] = {}
    left_out: Counter[str] = Counter()
    found = evidence(cell.text for cell in cells_of(text, []) if _left_out(cell) is None)
    rows = MetricRows(found.mark)
    for cell in cells_of(text, launches):
        if reason := _left_out(cell):
            left_out[reason] += 1
        else:
            rows.add(*cell)
        if cell.metric == _NAME:
            device_names[cell.launch] = cell.text
    if not launches:
        raise Unusable("an empty profile: it has no launch; see that ncu profiles a kernel")
    if not rows.count:
        raise Unusable("it has no metric; print it with --page raw or --page details")
    remarks = [_kept(rows, text), _marks(found, rows), *rows.no_numbers()]
    remarks += [*_not_loaded(left_out, text), *rows.rounded()]
    id_column = text.header.index("ID")
    if not is_details and all(row[id_column] for row in text.rows()):  # no row of units
        remarks.append(_UNITS_MISSING)
    return CsvProfile(page, _launches(launches, device_names), rows.table(), remarks)


def _left_out(cell: _Cell) -> str | None:
    """The kind of a cell that is not loaded; None if it is loaded."""
    if not cell.metric:
        return "rules"
    return "time series" if is_series(cell.metric) else None


def _raw(text: CsvText, launches: list[_Row]) -> Iterator[_Cell]:
    """The cells of the raw page, whose units are below the header; appends to `launches`."""
    of_launch = [(i, name) for i, name in enumerate(text.header) if name in _OF_LAUNCH]
    of_metrics = [(i, name) for i, name in enumerate(text.header) if name not in _OF_LAUNCH]
    units = [""] * len(text.header)
    number = text.header.index("ID")
    for row in text.rows():
        if not row[number]:
            units = row
            continue
        for i, name in of_metrics:
            if row[i]:
                yield _Cell(len(launches), None, name, units[i], row[i])
        launches.append({name: row[i] for i, name in of_launch})


def _details(text: CsvText, launches: list[_Row]) -> Iterator[_Cell]:
    """The cells of the details page; those of rules have no metric; appends to `launches`."""
    known: dict[tuple[int, str, str], int] = {}
    for row in text.rows():
        found = dict(zip(text.header, row, strict=True))
        key = (text.page, found["ID"], found.get("Process ID", ""))
        launch = known.setdefault(key, len(launches))
        if launch == len(launches):
            launches.append(found)
        yield _Cell(
            launch,
            found.get("Section Name") or None,
            found["Metric Name"],
            found.get("Metric Unit", ""),
            found.get("Metric Value", ""),
        )


_NUMBERS = {
    "number": "ID", "process_id": "Process ID", "device": "Device", "context": "Context",
    "stream": "Stream",
}  # fmt: skip


def _launches(rows: Sequence[_Row], device_names: Mapping[int, str]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                **{name: _whole(row.get(column)) for name, column in _NUMBERS.items()},
                "index": index,
                "device_name": device_names.get(index),
                "compute_capability": row.get("CC") or None,
                "name": row["Kernel Name"],
                "kind": row["Kernel Name"] if row["Kernel Name"] in _WHOLE else "kernel",
                "grid": _sizes(row.get("Grid Size")),
                "block": _sizes(row.get("Block Size")),
                "ranges": [name for column in _RANGES for name in ranges(row.get(column, ""))],
            }
            for index, row in enumerate(rows)
        ],
        LAUNCH,
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 19 else None


def _sizes(text: str | None) -> list[int] | None:
    found = _SIZES.fullmatch(text or "")
    sizes = [int(size) for size in found.groups()] if found else []
    return sizes if sizes and max(sizes) < 2**31 else None


def _kept(rows: MetricRows, text: CsvText) -> Remark:
    """Compares the values read with an independent count of the rows."""
    total = sum(_values_in(row, text.header) for row in text.rows())
    note = "values in table kernel_metric; values of metrics in the file"
    return Remark("values of the profile", rows.count, total, rows.count == total, note)


def _values_in(row: Sequence[str], header: Sequence[str]) -> int:
    found = dict(zip(header, row, strict=True))
    if "Metric Name" in found:
        return int(bool(found["Metric Name"]) and not is_series(found["Metric Name"]))
    if not found["ID"]:
        return 0  # the units
    series = sum(1 for name in header if is_series(name) and found[name])
    return len(row) - row.count("") - series - sum(1 for name in _OF_LAUNCH if found.get(name))


def _marks(found: Evidence, rows: MetricRows) -> Remark:
    """The detected decimal mark, and the numbers that show it."""
    words = {Mark.POINT: "decimal point", Mark.COMMA: "decimal comma"}
    because = "; ".join(
        f"{count} numbers such as {found.example[mark]} have a {words[mark]}"
        for mark, count in found.numbers.items()
    )
    note = because or "no number shows the decimal mark"
    if rows.unread:
        note += (
            f"; numbers such as {rows.unread[0]} can be read in two ways or in none, and are "
            "unknown: print the profile again with LC_ALL=C and --print-units base"
        )
    unread = len(rows.unread)
    ok = False if unread else None
    return Remark(
        "decimal mark of the profile", unread, rows.count, ok, f"numbers not read; values; {note}"
    )


def _not_loaded(left_out: Mapping[str, int], text: CsvText) -> Iterator[Remark]:
    for kind, count, what in (
        ("time series", left_out["time series"], "samples over time are not loaded"),
        ("rules", left_out["rules"], "advice of rules is not loaded; ncu-ui shows it"),
        ("other lines", text.others, "lines between the rows that are none"),
    ):
        if count:
            note = f"loaded; in the file; {what}"
            yield Remark(f"{kind} of the profile", 0, count, None, note)
    if text.damaged:
        note = "rows loaded; lines that begin like a row, but are damaged; print the profile again"
        yield Remark("damaged rows of the profile", 0, text.damaged, False, note)
