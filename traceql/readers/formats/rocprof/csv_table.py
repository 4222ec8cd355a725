"""Reads one CSV file of rocprofv3 into columns of text."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from traceql.errors import TraceCorrupt
from traceql.readers.arguments import int64_column
from traceql.readers.formats.rocprof.csv_numbers import number_of
from traceql.readers.formats.rocprof.forms import is_utf16
from traceql.readers.formats.rocprof.recording import FARTHEST_NS
from traceql.readers.unpacked import ANEW, pieces

_AS_WRITTEN = "load the file as rocprofv3 wrote it, not as a spreadsheet saved it"
TIMES = ("start_timestamp", "end_timestamp")
_INTEGER = r"^\s*-?[0-9]+\s*$"
_DECIMAL = r"^\s*-?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*$"
# A number that a locale or a spreadsheet has changed: 1,234 or 1.234E+15.
_CHANGED = re.compile(r"\s*-?[0-9]+([.,'\s\u00a0\u202f][0-9]+)+([eE][+-]?[0-9]+)?\s*$")
_FIRST = {"kind", "domain", "guid", "correlation_id", "node_id", "sample_timestamp"}
_SHOWN = 60
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLOCK_BYTES = 8 << 20


class CsvTable:
    """The rows of a file. Columns have names in lower case, because versions write them apart.

    Attributes:
        path: the file.
        unread: number of rows that do not fit the header.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unread = 0
        self._chosen: tuple[str, str] | None = None  # the column and the value of all rows
        text = b"".join(pieces(path, _BLOCK_BYTES)).removeprefix(_BYTE_ORDER_MARK)
        self._text = text
        _require_header(text)
        options = arrow_csv.ParseOptions(invalid_row_handler=self._skip, newlines_in_values=True)
        names = _names(text)
        try:
            found = arrow_csv.read_csv(
                io.BytesIO(text),
                read_options=arrow_csv.ReadOptions(
                    column_names=names, skip_rows=1, block_size=_BLOCK_BYTES
                ),
                parse_options=options,
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid as error:
            raise TraceCorrupt(f"{path.name}: {_reason(error)}; {ANEW}") from None
        self._table = found
        self._require_whole()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def has(self, *names: str) -> bool:
        return set(names) <= set(self._table.column_names)

    def text(self, name: str) -> pa.Array | None:
        """A column; None if the file does not have it."""
        return self._table[name].combine_chunks() if self.has(name) else None

    def integer(self, name: str) -> pa.Array | None:
        """A column of integers, NULL where there is none that fits 64 bits."""
        text = self.text(name)
        if text is None:
            return None
        known = pc.if_else(pc.match_substring_regex(text, _INTEGER), text, None)
        try:
            return known.cast(pa.int64())
        except pa.ArrowInvalid:
            return int64_column([number_of(value) for value in known.to_pylist()])

    def of(self, name: str, value: str) -> "CsvTable":
        """The rows with a value in a column."""
        found = copy(self)
        found._table = self._table.filter(pc.equal(self._table[name], value))
        found._chosen = name, value
        return found

    def take(self, rows: Sequence[int]) -> "CsvTable":
        """These rows."""
        found = copy(self)
        found._table = self._table.take(rows)
        return found

    def timed(self) -> "tuple[CsvTable, int, int]":
        """The rows whose times can be.

        Returns them, the number of rows with zeros for times, and of those that end before they
        begin. Rows whose times are no integers are added to `unread`.

        Raises:
            TraceCorrupt: the file has one of the columns of times alone, or they were changed.
        """
        found = copy(self)
        for name in TIMES:
            self.require_unchanged(name)
        start, end = (self.integer(name) for name in TIMES)
        if start is None and end is None:
            return found, 0, 0
        if start is None or end is None:
            raise self.without_column(TIMES[0] if start is None else TIMES[1])
        known = pc.and_(start.is_valid(), end.is_valid())
        has_time = pc.fill_null(pc.and_(known, pc.not_equal(start, 0)), False)
        may_be = pc.and_(pc.greater(start, 0), pc.less_equal(start, FARTHEST_NS))
        is_backward = pc.and_(has_time, pc.and_(may_be, pc.less(end, start)))
        is_backward = pc.fill_null(is_backward, False)
        found._table = self._table.filter(pc.and_not(has_time, is_backward))
        unread, backward = _number_of(pc.invert(known)), _number_of(is_backward)
        found.unread += unread
        return found, len(self) - _number_of(has_time) - unread, backward

    def without_column(self, name: str) -> TraceCorrupt:
        """The error for a file that does not have a column."""
        return TraceCorrupt(f"{self.path.name}: has no column {name}; {_AS_WRITTEN}")

    def rows(self, *names: str) -> Iterator[Sequence[str]]:
        """These columns of each row by another parser, for counting; empty if they are absent."""
        lines = csv.reader(io.StringIO(self._text.decode(), newline=""))
        header = [name.strip().lower() for name in next(lines)]
        at = [header.index(name) if name in header else None for name in names]
        chosen = None if self._chosen is None else header.index(self._chosen[0])
        for row in lines:
            if len(row) == len(header) and (
                chosen is None or self._chosen is None or row[chosen] == self._chosen[1]
            ):
                yield ["" if place is None else row[place] for place in at]

    def require_unchanged(self, name: str, *, is_whole: bool = True) -> None:
        """Raises TraceCorrupt if a locale or a spreadsheet changed the numbers of a column.

        Args:
            is_whole: whether the numbers are integers.
        """
        text = self.text(name)
        if text is None:
            return
        usual = _INTEGER if is_whole else _DECIMAL
        odd = text.filter(pc.invert(pc.match_substring_regex(text, usual)))
        changed = next((value for value in odd.to_pylist() if _CHANGED.match(value)), None)
        if changed is not None:
            raise TraceCorrupt(
                f"{self.path.name}: column {name} has the value {changed[:_SHOWN]!r}, a number "
                f"that was rounded or written in another locale; {_AS_WRITTEN}"
            )

    def _skip(self, _row: arrow_csv.InvalidRow) -> str:
        self.unread += 1
        return "skip"

    def _require_whole(self) -> None:
        if self._text and not self._text.endswith(b"\n"):
            raise TraceCorrupt(f"{self.path.name}: ends within a line; {ANEW}")


def _names(text: bytes) -> list[str]:
    """The columns, in lower case; raises TraceCorrupt if two have the same name."""
    (listed,) = csv.reader([text.split(b"\n", 1)[0].decode().strip()])
    names = [name.strip().lower() for name in listed]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TraceCorrupt(f"has the column {twice[:_SHOWN]!r} twice; {_AS_WRITTEN}")
    return names


def _require_header(text: bytes) -> None:
    """Raises TraceCorrupt unless the file begins with a header of rocprofv3."""
    if not text.strip():
        raise TraceCorrupt(f"empty file; {ANEW}")
    if is_utf16(text):
        raise TraceCorrupt(f"is UTF-16, not UTF-8; {_AS_WRITTEN}")
    lines = text.split(b"\n", 100)
    try:
        first = lines[0].decode()
        text.decode()
    except UnicodeDecodeError as error:
        raise TraceCorrupt(f"is not UTF-8 at byte {error.start:,}; {ANEW}") from None
    if _is_header(first):
        if len(lines) == 1:
            raise TraceCorrupt(f"ends in its header; {ANEW}")
        return
    if any(separator in first and _is_header(first, separator) for separator in ";\t"):
        raise TraceCorrupt(f"its columns are not separated by commas; {_AS_WRITTEN}")
    later = [n for n, line in enumerate(lines) if _is_header(line.decode(errors="replace"))]
    if later:
        raise TraceCorrupt(
            f"its header is in line {later[0] + 1}, after other text, such as what the program "
            "printed; remove what is before it"
        )
    raise TraceCorrupt(f"begins with {first[:_SHOWN]!r}, which is no header of rocprofv3; {ANEW}")


def _number_of(rows: pa.Array) -> int:
    """How many are true."""
    return int(pc.sum(rows).as_py() or 0)


def _is_header(line: str, separator: str = ",") -> bool:
    cells = [cell.strip().strip('"').lower() for cell in line.split(separator)]
    return len(cells) > 1 and cells[0] in _FIRST


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
