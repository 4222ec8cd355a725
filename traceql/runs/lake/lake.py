"""An open lake: canned queries of each run, queries over all runs, and SQL."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from traceql.database.tables import relation, require_select, result
from traceql.errors import LakeError, QueryInvalid, RunNotFound
from traceql.result import Result, RowStream, without_statement
from traceql.runs.compare.verdict import LEAST_RUNS, interval_place
from traceql.runs.lake.manifest import COLUMNS as RUN_COLUMNS
from traceql.runs.lake.manifest import NAME as RUNS_TABLE
from traceql.runs.lake.manifest import SUMMARY as RUNS_SUMMARY
from traceql.runs.lake.manifest import Entry, entries, runs_table
from traceql.runs.lake.store import store_at
from traceql.runs.lake.tables import RUN, Views, stored_tables
from traceql.sql.definition import described
from traceql.sql.execute import search_path
from traceql.sql.query import LIMIT, Query, bound, catalog, queries_in, query_named
from traceql.sql.registry import place_of
from traceql.util.arrow_duckdb import create_table
from traceql.util.resources import QUERIES
from traceql.util.text import literal, suggestion

INTERVALS = "interval_place"
MAX_RUNS = 20  # of a group; exact intervals of more runs are slow


def interval_places() -> pa.Table:
    """The table interval_place, see `interval_place`: one row per number of runs of two groups."""
    counts = range(LEAST_RUNS, MAX_RUNS + 1)
    rows = [
        {"base_runs": base, "new_runs": new, "place": interval_place(base, new)}
        for base in counts
        for new in counts
    ]
    return pa.Table.from_pylist(rows)


_FLEET = "fleet"
# In errors about missing or damaged files.
_ABOUT_FILES = re.compile(r"(?i)parquet|zstd|no files found|cannot open file")
LISTED_BY = "traceql lake run"
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")
_SHOWS_TABLES = "list them with traceql lake sql 'SHOW TABLES'"
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class Lake(AbstractContextManager["Lake"]):
    """A lake, opened for reading, with its present runs. Close it with `with` or `close()`.

    Args:
        folder: made by `traceql lake add`.
        queries: folders with your own queries of one run.

    Raises:
        LakeError: it is not a lake, or it is damaged.
    """

    def __init__(self, folder: str | Path, *, queries: Sequence[str | Path] = ()) -> None:
        self._store = store_at(folder)
        self.entries = entries(self._store)
        self.queries = catalog([Path(one) for one in queries])
        self.fleet_queries = fleet_queries()
        self._con = duckdb.connect(config=_CONFIG)
        self._store.confine(self._con)
        self._views = Views(self._con, self._store)
        # Canned queries see all schemas, SQL of the user the public tables.
        self._all = self._con.cursor()
        self._all.execute(f"SET search_path = {literal(search_path('memory'))}")
        self._register_runs(self.entries)

    @property
    def runs(self) -> Result:
        """Table lake_run: one row per run, including failed ones."""
        return Result(runs_table(self.entries))

    def query(self, name: str, /, *, where: str | None = None, **parameters: Any) -> Result:
        """Runs a query: one of the fleet, such as fleet.stragglers, or a canned query of each run.

        A canned query runs on each run as on its own database, with its own limit; the first column
        is run.

        Args:
            where: a condition on table lake_run, such as "model = 'qwen3-32b'"; all runs if None.

        Raises:
            QueryNotFound: no such query; the message suggests the closest name.
            QueryInvalid: an unknown parameter, a value that is not allowed, or invalid SQL.
            RunNotFound: no run matches `where`.
        """
        query = query_named(name, {**self.queries, **self.fleet_queries}, listed_by=LISTED_BY)
        values = bound(query, parameters)
        found = self._chosen(where)
        with self._one_line_errors():
            if name in self.fleet_queries:
                self._prepare(found, query.sql)
                limit = values.get(LIMIT)
                return result(self._all, query.sql, values, query.head.chart, limit=limit)
            return self._of_each(query, values, found)

    run = query  # the earlier name, for one release

    def sql(
        self, sql: str, parameters: dict[str, Any] | None = None, *, where: str | None = None
    ) -> Result:
        """Runs one SELECT over the tables of all runs, each with a column run, and lake_run.

        Args:
            where: a condition on table lake_run; all runs by default.

        Raises:
            QueryInvalid: with DuckDB's message in one line.
            RunNotFound: no run matches `where`.
        """
        with self._prepared(sql, where):
            return result(self._con, sql, parameters or {})

    def batches(
        self,
        sql: str,
        parameters: dict[str, Any] | None = None,
        *,
        rows: int,
        where: str | None = None,
    ) -> RowStream:
        """Like `sql`, for results larger than memory: batches of at most `rows` rows, read once.

        Raises:
            QueryInvalid: with DuckDB's message in one line; for an error in a later row, when that
                batch is read.
            RunNotFound: no run matches `where`.
        """
        with self._prepared(sql, where):
            con = self._con.cursor()
            return RowStream(con, relation(con, sql, parameters or {}).to_arrow_reader(rows))

    def close(self) -> None:
        self._all.close()
        self._con.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lake {self._store.place}: {len(self.entries)} runs>"

    def _chosen(self, where: str | None) -> list[Entry]:
        """The runs that match a condition, including failed ones."""
        if where is None:
            return self.entries
        statement = f"SELECT {RUN} FROM {RUNS_TABLE} WHERE ({where}\n)"
        self._register_runs(self.entries)
        try:
            require_select(statement, what="a lake")
            rows = relation(self._con, statement, {}).fetchall()
        except (duckdb.Error, QueryInvalid) as error:
            raise QueryInvalid(f"--where: {without_statement(error)}") from None
        names = {run for (run,) in rows}
        if not names:
            raise RunNotFound(f"no run has {where}; see traceql lake run fleet.runs")
        return [one for one in self.entries if one.run in names]

    def _prepare(self, found: Sequence[Entry], sql: str) -> None:
        self._register_runs(found)
        if INTERVALS in sql:
            create_table(self._con, INTERVALS, interval_places())
        self._views.show_runs([one for one in found if one.is_ok], sql)

    def _of_each(self, query: Query, values: Mapping[str, Any], found: Sequence[Entry]) -> Result:
        loaded = [one for one in found if one.is_ok]
        if not loaded:
            raise RunNotFound("no run here was loaded; see traceql lake run fleet.runs")
        tables = []
        for entry in loaded:
            self._views.show_run(entry, query.sql)
            try:
                rows = relation(self._all, query.sql, dict(values)).to_arrow_table()
            except duckdb.Error as error:
                raise QueryInvalid(f"{entry.run}: {without_statement(error)}") from None
            tables.append(rows.add_column(0, RUN, pa.repeat(entry.run, len(rows))))
        chart = query.head.chart if len(loaded) == 1 else None
        return Result(pa.concat_tables(tables, promote_options="permissive"), chart)

    def _register_runs(self, found: Sequence[Entry]) -> None:
        create_table(self._con, RUNS_TABLE, runs_table(found))
        texts = {one.name: one.text for one in RUN_COLUMNS}
        self._con.execute(described("TABLE", RUNS_TABLE, RUNS_SUMMARY, texts))

    @contextmanager
    def _prepared(self, sql: str, where: str | None) -> Iterator[None]:
        """The tables that a statement of the user reads, and its errors in one line."""
        require_select(sql, what="a lake")
        with self._one_line_errors():
            self._prepare(self._chosen(where), sql)
            yield

    @contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        """Turns an error of DuckDB into a line, with the remedy if it is about a file."""
        try:
            yield
        except (duckdb.Error, QueryInvalid) as error:
            message = without_statement(error)
            if missing := _NO_TABLE.search(message):
                if place := place_of(missing[1]):
                    raise QueryInvalid(place) from None
                hint = suggestion(missing[1], (RUNS_TABLE, *stored_tables())) or _SHOWS_TABLES
                raise QueryInvalid(f"no table '{missing[1]}'; {hint}") from None
            if not _ABOUT_FILES.search(message):
                raise QueryInvalid(message) from None
            raise LakeError(
                f"{message}; if the lake has changed, repeat the query, else run "
                f"traceql lake check --lake {self._store.place}"
            ) from None


def fleet_queries() -> dict[str, Query]:
    return queries_in(QUERIES / _FLEET)


def open_lake(folder: str | Path, *, queries: Sequence[str | Path] = ()) -> Lake:
    """Opens a lake, such as `open_lake("lake").query("fleet.runs")`.

    Args:
        folder: made by `traceql lake add`.
        queries: folders with your own queries of one run.

    Raises:
        LakeError: it is not a lake, or it is damaged.
    """
    return Lake(folder, queries=queries)
