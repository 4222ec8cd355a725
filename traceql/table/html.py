"""Arrow tables as HTML: numbers aligned and in readable units, every cell escaped."""

from html import escape
from typing import TYPE_CHECKING

from traceql.table.columns import DisplayColumn, display_columns

if TYPE_CHECKING:
    import pyarrow as pa


def html_table(table: "pa.Table", *, texts: dict[str, str] | None = None) -> str:
    """A table whose cells carry the value to sort by.

    Args:
        texts: a description of each column, shown when the pointer is over its title.
    """
    columns = display_columns(table)
    heads = "".join(_head(column, (texts or {}).get(column.name, "")) for column in columns)
    rows = zip(*(_cells(column) for column in columns), strict=True)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _head(column: DisplayColumn, text: str) -> str:
    title = escape(column.title.replace("_", " "))
    return f'<th scope="col"{_kind(column)} title="{escape(text)}">{title}</th>'


def _cells(column: DisplayColumn) -> list[str]:
    if not column.is_number:
        return [f"<td>{escape(cell)}</td>" for cell in column.cells]
    return [
        f'<td class="n" data-v="{"" if value is None else value}">{escape(cell)}</td>'
        for value, cell in zip(column.values, column.cells, strict=True)
    ]


def _kind(column: DisplayColumn) -> str:
    return ' class="n"' if column.is_number else ""
