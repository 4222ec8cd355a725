"""Rows as other programs read them: JSON, CSV, Parquet, folded stacks and HTML."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from html import escape
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any

from traceql.errors import QueryInvalid
from traceql.result.text_table.columns import DisplayColumn, display_columns
from traceql.result.text_table.values import (
    fits_int64,
    is_sentence,
    plain,
    python_rows,
    python_values,
    wide_columns,
    with_int64,
    without_middle,
)
from traceql.util.text import one_line, printable

if TYPE_CHECKING:
    import pyarrow as pa


_WIDE = "\uff1d\uff0b\uff0d\uff20"  # which a spreadsheet takes for =+-@
_FORMULA = re.compile(rf"[=+\-@\t\r\n{_WIDE}]")
_LINE_END = "\r\n"
_NOT_TEXT = (int, float, Decimal, type(None))
_STACK, _SELF = "stack", "self_ns"


def plain_rows(rows: "pa.Table | pa.RecordBatch") -> list[dict[str, Any]]:
    """One object per row; NaN and infinities become null because JSON cannot express them."""
    return [{name: plain(value) for name, value in row.items()} for row in python_rows(rows)]


def json_text(batches: "Iterable[pa.RecordBatch]") -> Iterator[str]:
    """A list with an object per row, in pieces."""
    before = "["
    for batch in batches:
        if batch.num_rows:
            listed = json.dumps(plain_rows(batch), indent=1, ensure_ascii=False, default=str)
            yield before + listed[1:-2]  # without its brackets
            before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def csv_text(
    names: Sequence[str],
    batches: "Iterable[pa.RecordBatch]",
    *,
    spreadsheet_safe: bool = False,
) -> Iterator[str]:
    """A header line, then one line per row, in pieces; lists and structs are written as JSON."""
    cell = _safe_cell if spreadsheet_safe else _cell
    lines: list[str] = []
    # A writer quotes the characters that end its lines, and a cell may have a carriage return.
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator=_LINE_END)
    writer.writerow([cell(name) for name in names])
    for batch in batches:
        columns = [_cells(*column, cell) for column in zip(batch.columns, names, strict=True)]
        writer.writerows(zip(*columns, strict=True))
        yield _taken(lines)
    yield _taken(lines)  # the header alone, if there are no batches


def _taken(lines: list[str]) -> str:
    text = "".join([line.removesuffix(_LINE_END) + "\n" for line in lines])
    lines.clear()
    return text


def _cells(column: "pa.Array", name: str, cell: Callable[[Any], Any]) -> Iterable[Any]:
    import pyarrow as pa

    values = python_values(column, name)
    is_exact = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return values if is_exact else map(cell, values)


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(plain(value), default=str)
    if isinstance(value, Decimal) and value != value.to_integral_value():
        return f"{value:f}".rstrip("0")
    return plain(value)


def _safe_cell(value: Any) -> Any:
    cell = _cell(value)
    if isinstance(value, _NOT_TEXT) or not _FORMULA.match(str(cell)):
        return cell
    return f"'{cell}"


def write_parquet(
    schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]", file: IO[bytes]
) -> None:
    """One file with a row group per batch, with as much memory as a batch takes.

    Integers of 128 bits become int64 if all of a column fit.
    """
    import pyarrow as pa

    narrow = wide_columns(schema)
    if not narrow:
        _write_groups(schema, batches, file)
        return
    with TemporaryFile() as spool:  # the last row may decide the type of the first
        with pa.ipc.new_stream(spool, schema) as kept:
            for batch in batches:
                narrow = [name for name in narrow if fits_int64(batch.column(name))]
                kept.write_batch(batch)
        spool.seek(0)
        with pa.ipc.open_stream(spool) as kept:
            narrowed = with_int64(schema, narrow)
            _write_groups(narrowed, (batch.cast(narrowed) for batch in kept), file)


def _write_groups(
    schema: "pa.Schema", batches: "Iterable[pa.RecordBatch]", file: IO[bytes]
) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def require_stacks(schema: "pa.Schema") -> None:
    """Refuses rows that have no stacks.

    Raises QueryInvalid if a column is missing or has another type.
    """
    import pyarrow as pa

    if not {_STACK, _SELF} <= set(schema.names):
        raise QueryInvalid(
            f"--format folded needs the columns {_STACK} and {_SELF}; query host.flame has them"
        )
    if not pa.types.is_string(schema.field(_STACK).type):
        raise QueryInvalid(f"--format folded needs text in column {_STACK}; cast it to VARCHAR")
    if not pa.types.is_integer(schema.field(_SELF).type):
        raise QueryInvalid(f"--format folded needs integers in column {_SELF}; cast it to BIGINT")


def folded_text(batches: "Iterable[pa.RecordBatch]") -> Iterator[str]:
    """The lines of the stacks that have self time, in pieces."""
    for batch in batches:
        rows = zip(batch.column(_STACK).to_pylist(), batch.column(_SELF).to_pylist(), strict=True)
        yield "".join(
            f"{one_line(stack or '(no stack)')} {self_ns}\n" for stack, self_ns in rows if self_ns
        )


_TAGS = ("phase", "rank")
_LONG = 28  # letters
_SEPARATOR = re.compile(r"(?<=[_:,./<-])(?=[^\s_:,./<>-])")
_LONGEST_NAME = 72
_NUMBERS = ' class="n"'
_ROWS = 12
# Notebooks align all cells to the right, and squeeze a wide table until its numbers wrap.
_STYLE = (
    "<style>"
    ".traceql{overflow-x:auto}"
    ".traceql table{width:max-content}"
    ".traceql td,.traceql th{text-align:left!important;vertical-align:top!important}"
    ".traceql td{max-width:28em}"
    ".traceql .n{text-align:right!important;font-variant-numeric:tabular-nums}"
    "</style>"
)


def html_table(table: "pa.Table", *, texts: dict[str, str] | None = None) -> str:
    """A table whose cells carry the value to sort by.

    Args:
        texts: a description of each column, shown when the pointer is over its title.
    """
    columns = display_columns(table)
    heads = "".join(
        f'<th scope="col"{_NUMBERS * column.is_number} '
        f'title="{escape((texts or {}).get(column.name, ""))}">'
        f"{escape(column.title.replace('_', ' '))}</th>"
        for column in columns
    )
    rows = zip(_row_tags(columns), *(_html_cells(column) for column in columns), strict=True)
    body = "".join(f"{tag}{''.join(cells)}</tr>" for tag, *cells in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _row_tags(columns: list[DisplayColumn]) -> list[str]:
    """The opening tags of rows, with the rank and the phase of each."""
    tags = [""] * (len(columns[0].values) if columns else 0)
    for column in columns:
        for row, value in enumerate(column.values if column.name in _TAGS else ()):
            if value is not None:
                tags[row] += f' data-{column.name}="{escape(str(value))}"'
    return [f"<tr{tag}>" for tag in tags]


def _html_cells(column: DisplayColumn) -> list[str]:
    if not column.is_number:
        return [_text(cell) for cell in column.cells]
    return [
        f'<td class="n" data-v="{"" if value is None else value}">{escape(cell)}</td>'
        for value, cell in zip(column.values, column.cells, strict=True)
    ]


def _text(cell: str) -> str:
    """A sentence is whole; a long name is shortened, and whole under the pointer.

    It may be broken after a separator, where a word must not.
    """
    shown = cell if is_sentence(cell) else without_middle(cell, _LONGEST_NAME)
    whole = "" if shown == cell else f' title="{escape(cell)}"'
    parts = _SEPARATOR.split(shown) if len(shown) > _LONG else [shown]
    return f"<td{whole}>{'<wbr>'.join(map(escape, parts))}</td>"


def notebook_view(table: "pa.Table", *, no_picture: str = "", reached_limit: bool = False) -> str:
    """HTML for a notebook cell."""
    if not table.num_rows:
        return "<p>no rows</p>"
    rows = f'<div class="traceql">{html_table(table.slice(0, _ROWS))}</div>'
    more = table.num_rows - _ROWS
    if more > 0:
        rows += f"<p>{more:,} more rows; <code>.df()</code> returns all of them</p>"
    if reached_limit:
        rows += f"<p>limit: {table.num_rows:,} rows; <code>limit=0</code> gives all</p>"
    if no_picture:
        rows += f"<p>no picture: {escape(no_picture)}</p>"
    return printable(f"<div>{_STYLE}{rows}</div>")
