"""Results as HTML tables: numbers aligned and in readable units, every cell escaped."""

from html import escape

from traceql.result import Result
from traceql.table.columns import Column, columns_of


def html_table(result: Result, *, texts: dict[str, str] | None = None) -> str:
    """A table whose cells carry the value that they are sorted by.

    Args:
        texts: what each column is, for whoever points at its title.
    """
    columns = [column for column in columns_of(result) if column.has_values]
    heads = "".join(_head(column, (texts or {}).get(column.name, "")) for column in columns)
    rows = zip(*(_cells(column, result) for column in columns), strict=True)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _head(column: Column, text: str) -> str:
    title = escape(column.title.replace("_", " "))
    return f'<th scope="col"{_kind(column)} title="{escape(text)}">{title}</th>'


def _cells(column: Column, result: Result) -> list[str]:
    if not column.is_number:
        return [f"<td>{escape(cell)}</td>" for cell in column.cells]
    values = result.arrow().column(column.name).to_pylist()
    return [
        f'<td class="n" data-v="{"" if value is None else value}">{escape(cell)}</td>'
        for value, cell in zip(values, column.cells, strict=True)
    ]


def _kind(column: Column) -> str:
    return ' class="n"' if column.is_number else ""
