"""The rows that a query returns, and how they are shown."""

from traceql.result.result import (
    Result,
    RowStream,
    as_html,
    display_in_notebook,
    without_statement,
)

__all__ = ["Result", "RowStream", "as_html", "display_in_notebook", "without_statement"]
