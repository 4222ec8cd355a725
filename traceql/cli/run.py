"""traceql run"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from traceql.cli.excerpt_options import part_of, part_options, shown_part
from traceql.cli.folders import queries_option
from traceql.cli.output import (
    TableForm,
    format_option,
    require_csv,
    say_if_cut,
    wide_option,
    write_rows,
)
from traceql.cli.page import open_slowest_row
from traceql.cli.query_group import QueryGroup, query_command
from traceql.cli.query_options import chart_option
from traceql.database.database import Database
from traceql.present.ui.place import has_place
from traceql.result import Result
from traceql.sql.query import LIMIT, Query, bound, catalog
from traceql.util.printable import printable


class _Queries(QueryGroup):
    listed_by = "traceql queries"

    def sections(self, folders: Sequence[Path]) -> dict[str, dict[str, Query]]:
        return {"Queries": catalog(folders)}

    def command_of(self, query: Query, folders: Sequence[Path]) -> click.Command:
        return _query_command(query, folders)


def _query_command(query: Query, folders: Sequence[Path]) -> click.Command:
    def run(
        database: Path,
        format_: str,
        spreadsheet_safe: bool,
        wide: bool,
        chart_file: Path | None,
        ui: bool = False,
        **parameters: Any,
    ) -> None:
        require_csv(format_, spreadsheet_safe=spreadsheet_safe)
        part = part_of(parameters)
        with Database(database, queries=folders) as whole, shown_part(whole, part) as trace:
            if ui:
                open_slowest_row(trace, query.name, trace.query(query.name, **parameters))
            elif chart_file:
                _write_chart(trace.query(query.name, **parameters), chart_file)
            else:
                rows = write_rows(
                    trace,
                    query.sql,
                    bound(query, parameters),
                    format_=format_,
                    spreadsheet_safe=spreadsheet_safe,
                    table=_form(trace, query, parameters, wide),
                )
                if format_ == "table":
                    say_if_cut(trace, query.name, bound(query, parameters), rows)

    command = query_command(query, run)
    command.params.insert(0, click.Argument(["database"], type=click.Path(path_type=Path)))
    if has_place(column.name for column in query.head.columns):
        command.params.append(_UI)
    own = [parameter.name for parameter in query.head.parameters]
    return part_options(without=own)(format_option(wide_option(chart_option(command))))


def _form(trace: Database, query: Query, parameters: dict[str, Any], wide: bool) -> TableForm:
    empty = _missing_rank(trace, parameters.get("rank")) or trace.queries[query.name].head.empty
    if LIMIT in parameters:
        return TableForm(empty, query.head.keys, wide, most_rows=None)
    return TableForm(empty, query.head.keys, wide)


def _missing_rank(trace: Database, rank: int | None) -> str:
    """Says that a rank is not loaded, if that is why there are no rows."""
    loaded = [row["rank"] for row in trace.select("SELECT rank FROM trace ORDER BY rank")]
    if rank is None or rank in loaded:
        return ""
    return f"rank {rank} is not loaded (loaded: {', '.join(map(str, loaded))})"


def _write_chart(result: Result, path: Path) -> None:
    result.save_chart(path)
    click.echo(printable(f"wrote {path}: a chart of {len(result):,} rows"), err=True)


_UI = click.Option(
    ["--ui"], is_flag=True, help="Open Perfetto at the row with the longest duration instead."
)


@click.command("run", cls=_Queries)
@queries_option
def command(queries: tuple[Path, ...]) -> None:
    """Run a query, e.g. traceql run kernels.top run.duckdb --limit 10."""
