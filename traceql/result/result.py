"""What a query returns: rows, for pandas, Polars, Arrow, Altair or a program."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from traceql.errors import QueryInvalid, TraceqlError
from traceql.result.text_table.values import (
    distinct_names,
    fits_int64,
    has_map,
    python_rows,
    python_values,
    wide_columns,
    with_int64,
)
from traceql.sql.query import Chart
from traceql.util.files import replace_file

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from traceql.result.chart.encodings import Drawn

_NOTEBOOK_WIDTH = 640  # pixels of a chart


class Result:
    """The rows of one query, held in memory as DuckDB returned them."""

    def __init__(
        self, table: "pa.Table", chart: Chart | None = None, *, limit: int | None = None
    ) -> None:
        named = table.rename_columns(distinct_names(table.column_names))
        # DuckDB sums integers to 128 bits; they become int64 if they fit.
        narrow = [name for name in wide_columns(named.schema) if fits_int64(named[name])]
        self._table = named.cast(with_int64(named.schema, narrow)) if narrow else named
        self._chart = chart
        self._limit = limit

    @property
    def reached_limit(self) -> bool:
        """Whether there are as many rows as the query's limit allows, and perhaps more."""
        return self._limit is not None and len(self) >= self._limit

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    @overload
    def __getitem__(self, row: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, row: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, row: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """A row, by its number from 0 (those from the end are negative), or a slice of the rows."""
        if isinstance(row, slice):
            return self.rows()[row]
        if not -len(self) <= row < len(self):
            raise IndexError(f"there is no row {row}: the result has {len(self)} rows")
        return self.head(1, after=row % len(self)).rows()[0]

    def rows(self) -> list[dict[str, Any]]:
        """One dict per row.

        Raises:
            QueryInvalid: a date that Python does not have, such as one before the year 1.
        """
        return python_rows(self._table)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """One tuple per row, as from a cursor; raises as `rows`."""
        return [tuple(row.values()) for row in self.rows()]

    def head(self, rows: int, *, after: int = 0) -> "Result":
        """The first rows after a number of others."""
        return Result(self._table.slice(after, rows), self._chart)

    def where(self, column: str, value: object) -> "Result":
        """The rows with that value in a column."""
        import pyarrow.compute as pc

        return Result(self._table.filter(pc.equal(self._table[column], value)), self._chart)

    def select(self, columns: list[str]) -> "Result":
        """The rows with these columns alone, in that order; with the chart if it needs no other."""
        channels = self._chart.channels.values() if self._chart else ()
        needed = {column for channel in channels for column in channel.split(",")}
        return Result(self._table.select(columns), self._chart if needed <= {*columns} else None)

    def arrow(self) -> "pa.Table":
        """The rows as a pyarrow table."""
        return self._table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for programs that read Arrow, such as DuckDB and Polars."""
        return self._table.__arrow_c_stream__(requested_schema)

    def pl(self) -> "pl.DataFrame":
        """A Polars DataFrame; raises TraceqlError if Polars is not installed."""
        try:
            import polars as pl
        except ImportError:
            raise TraceqlError("Polars is not installed; run pip install polars") from None
        return pl.DataFrame(self._table)

    def df(self) -> "pd.DataFrame":
        """A pandas DataFrame; integer columns with NULLs have type Int64; raises as `rows`."""
        import pandas as pd
        import pyarrow as pa

        nullable = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}
        named = list(zip(self._table.column_names, self._table.columns, strict=True))
        holes = {column.type for _, column in named if column.null_count} & nullable.keys()
        kept = {kind: nullable[kind] for kind in holes}
        try:
            data: pd.DataFrame = self._table.to_pandas(types_mapper=kept.get)
        except ValueError:
            self.rows()  # says which column
            raise
        for name, column in named:
            if has_map(column.type):
                data[name] = python_values(column, name)
        return data

    def chart(self, *, width: int = 720) -> "Drawn":
        """The chart that the query's file declares; a notebook shows it as a still picture.

        After `alt.renderers.enable("mimetype")`, JupyterLab and VS Code show it with tooltips.

        Args:
            width: of the whole chart, pixels.

        Raises:
            QueryInvalid: the query declares no chart (free SQL never does), or has nothing to draw.
        """
        from traceql.result.chart.draw import drawn, rendered_offline

        return rendered_offline(drawn(self._table, self.declared_chart, width=width))

    @property
    def can_be_drawn(self) -> bool:
        """Whether the query's file declares a chart and the rows have something to draw."""
        if self._chart is None:
            return False
        from traceql.result.chart.drawing import can_be_drawn

        return can_be_drawn(self._table, self._chart)

    def save_chart(self, path: str | Path, *, width: int = 720) -> None:
        """Writes the chart as .html, .png or .svg, by the suffix of `path`.

        The HTML page contains everything that it needs.

        Args:
            width: of the whole chart, pixels.

        Raises:
            QueryInvalid: the query declares no chart, or has nothing to draw.
            TraceqlError: `path` has another suffix or cannot be written.
        """
        from traceql.result.chart.drawing import SUFFIXES, Drawing, Order

        path = Path(path)
        if path.suffix.lower() not in SUFFIXES:
            raise TraceqlError(
                f"cannot draw into '{path}'; its name must end in one of {', '.join(SUFFIXES)}"
            )
        order = Order(self._table, self.declared_chart, width, path.suffix.lower())
        with closing(Drawing()) as drawing:
            replace_file(path, drawing.draw(order))

    def _ipython_display_(self) -> None:
        """Shows the chart, if there is one, and the first rows, each as an output of its own.

        So the picture is seen where the HTML of notebooks is not trusted, as by code hosts.
        """
        display_in_notebook(self.outputs())

    def outputs(self) -> Iterator[dict[str, str]]:
        """What a notebook shows: the chart, if there is one, and the first rows, by media type."""
        from traceql.result.text_table.export import notebook_view

        no_picture = ""
        try:
            if self._chart and self.can_be_drawn:
                from traceql.result.chart.drawing import Order, notebook_drawing

                order = Order(self._table, self._chart, _NOTEBOOK_WIDTH)
                picture = notebook_drawing().draw(order).decode()
                yield {"image/svg+xml": picture, "text/plain": "<chart>"}
        except TraceqlError as error:
            no_picture = str(error)
        rows = notebook_view(self._table, no_picture=no_picture, reached_limit=self.reached_limit)
        yield {"text/html": rows, "text/plain": repr(self)}

    def _repr_html_(self) -> str:
        """The same for programs other than Jupyter, as one piece."""
        return as_html(self.outputs())

    @property
    def declared_chart(self) -> Chart:
        """The kind of chart that is declared, and its columns; raises QueryInvalid if none is."""
        if self._chart is None:
            raise QueryInvalid("this query declares no chart; plot .df() with Altair instead")
        return self._chart

    def __repr__(self) -> str:
        return f"<Result: {len(self)} rows of {', '.join(self.columns)}>"


class RowStream:
    """The batches of a result, which can be read once; DuckDB computes them as they are read.

    Raises:
        QueryInvalid: on iteration, if the statement fails after its first rows.
    """

    def __init__(self, con: "duckdb.DuckDBPyConnection", batches: "pa.RecordBatchReader") -> None:
        import pyarrow as pa

        self._con = con  # closed with this object
        self._batches = batches
        names = distinct_names(batches.schema.names)
        self.schema: pa.Schema = pa.schema(
            field.with_name(name) for field, name in zip(batches.schema, names, strict=True)
        )

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        import duckdb
        import pyarrow as pa

        try:
            for batch in self._batches:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # OSError comes from Arrow
            raise QueryInvalid(without_statement(error)) from None


def without_statement(error: Exception) -> str:
    """DuckDB's message in one line, without the statement that it quotes."""
    return str(error).split("\n\nLINE ")[0].replace("\n", " ").strip()


def display_in_notebook(outputs: Iterable[dict[str, str]]) -> None:
    """Shows outputs by media type, each as one of its own.

    Raises NotImplementedError if this is no notebook; a terminal gets the text of repr().
    """
    from IPython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    if shell is None or "text/html" not in shell.display_formatter.active_types:
        raise NotImplementedError
    for output in outputs:
        display(output, raw=True)


def as_html(outputs: Iterable[dict[str, str]]) -> str:
    """Outputs for programs other than Jupyter, as one piece."""
    return "".join(next(iter(output.values())) for output in outputs)
