"""An Arrow table as a notebook shows it: a picture, if there is one, and the first rows."""

from html import escape
from typing import TYPE_CHECKING

from traceql.printable import printable
from traceql.table.html import html_table

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 12


def notebook_view(table: "pa.Table", *, picture: str = "", no_picture: str = "") -> str:
    """HTML for a notebook cell.

    Args:
        picture: SVG, shown above the rows.
        no_picture: why there is none, if there should be one.
    """
    if not table.num_rows:
        return "<p>no rows</p>"
    rows = f'<div style="overflow-x:auto">{html_table(table.slice(0, _ROWS))}</div>'
    more = table.num_rows - _ROWS
    if more > 0:
        rows += f"<p>{more:,} more rows; <code>.df()</code> returns all of them</p>"
    if no_picture:
        rows += f"<p>no picture: {escape(no_picture)}</p>"
    return printable(f"<div>{picture}{rows}</div>")
