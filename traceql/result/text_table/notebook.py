"""An Arrow table as a notebook shows it: the first rows."""

from html import escape
from typing import TYPE_CHECKING

from traceql.result.text_table.html import html_table
from traceql.util.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

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
