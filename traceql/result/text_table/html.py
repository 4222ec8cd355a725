"""Arrow tables as HTML, for pages and notebooks: readable units, every cell escaped."""

import re
from html import escape
from typing import TYPE_CHECKING

from traceql.result.text_table.columns import DisplayColumn, display_columns
from traceql.result.text_table.texts import is_sentence, without_middle
from traceql.util.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

_TAGS = ("phase", "rank")
_LONG = 28  # letters
_SEPARATOR = re.compile(r"(?<=[_:,./<-])(?=[^\s_:,./<>-])")
_LONGEST_NAME = 72
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
    heads = "".join(_head(column, (texts or {}).get(column.name, "")) for column in columns)
    rows = zip(_row_tags(columns), *(_cells(column) for column in columns), strict=True)
    body = "".join(f"{tag}{''.join(cells)}</tr>" for tag, *cells in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _row_tags(columns: list[DisplayColumn]) -> list[str]:
    """The opening tags of rows, with the rank and the phase of each."""
    rows = len(columns[0].values) if columns else 0
    tags = [column for column in columns if column.name in _TAGS]
    return [f"<tr{''.join(_attribute(column, row) for column in tags)}>" for row in range(rows)]


def _attribute(column: DisplayColumn, row: int) -> str:
    value = column.values[row]
    return "" if value is None else f' data-{column.name}="{escape(str(value))}"'


def _head(column: DisplayColumn, text: str) -> str:
    title = escape(column.title.replace("_", " "))
    return f'<th scope="col"{_kind(column)} title="{escape(text)}">{title}</th>'


def _cells(column: DisplayColumn) -> list[str]:
    if not column.is_number:
        return [_text(cell) for cell in column.cells]
    return [
        f'<td class="n" data-v="{"" if value is None else value}">{escape(cell)}</td>'
        for value, cell in zip(column.values, column.cells, strict=True)
    ]


def _breakable(cell: str) -> str:
    """The text escaped; a long name may be broken after a separator, where a word must not."""
    if len(cell) <= _LONG:
        return escape(cell)
    return "<wbr>".join(escape(part) for part in _SEPARATOR.split(cell))


def _text(cell: str) -> str:
    """A sentence is whole; a long name is shortened, and whole under the pointer."""
    shown = cell if is_sentence(cell) else without_middle(cell, _LONGEST_NAME)
    whole = "" if shown == cell else f' title="{escape(cell)}"'
    return f"<td{whole}>{_breakable(shown)}</td>"


def _kind(column: DisplayColumn) -> str:
    return ' class="n"' if column.is_number else ""


def notebook_view(table: "pa.Table", *, no_picture: str = "", reached_limit: bool = False) -> str:
    """HTML for a notebook cell.

    Args:
        no_picture: why there is no picture, if there should be one.
        reached_limit: whether the query may have more rows than the table.
    """
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
