"""The results of experiments, with queries by name and SQL."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb

from traceql.database.statement import require_select, result
from traceql.errors import TraceNotFound
from traceql.result import Result
from traceql.runs.experiment.load import fill, opened_results, quiet
from traceql.sql.query import LIMIT, Query, bound, queries_in, query_named
from traceql.util.resources import QUERIES


def experiment_queries() -> dict[str, Query]:
    """The queries over experiments, by name."""
    return queries_in(QUERIES / "experiment")


class Experiment(AbstractContextManager["Experiment"]):
    """The results of one experiment or several.

    Args:
        con: a connection to a database with the tables of experiments.
        name: where it comes from.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, name: str) -> None:
        self._con = con
        self.name = name

    def query(self, name: str, /, **parameters: Any) -> Result:
        """Runs a query of the folder queries/experiment, e.g. `results.query("latency")`.

        Raises:
            QueryNotFound: no such query; the message suggests the closest name.
            QueryInvalid: an unknown parameter, or a value that is not allowed.
        """
        listed = "traceql experiment show --query list"
        query = query_named(name, experiment_queries(), listed_by=listed)
        values = bound(query, parameters)
        return result(self._con, query.sql, values, query.head.chart, limit=values.get(LIMIT))

    run = query  # the earlier name, for one release

    def sql(self, sql: str, parameters: dict[str, Any] | None = None) -> Result:
        """Runs one statement over the tables.

        Raises:
            QueryInvalid: with DuckDB's message in one line.
        """
        require_select(sql, what="results")
        return result(self._con, sql, parameters or {})

    def df(self) -> "Any":
        """The table of points with their headline numbers, as a pandas DataFrame."""
        return self.query("points").df()

    def close(self) -> None:
        self._con.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Experiment: {self.name}>"


def experiment(
    *paths: str | Path,
    say: Callable[[str], None] = quiet,
    warn: Callable[[str], None] = quiet,
) -> Experiment:
    """Opens a database of experiments, or loads folders of results into memory.

    Args:
        paths: one database, or folders that `traceql experiment run` has written.
        say: called with a line about each load, which can take minutes if points were profiled.
        warn: called with a line about each file that cannot be read.

    Raises:
        TraceqlError: there are no results.
    """
    places = [Path(path) for path in paths]
    name = ", ".join(map(str, places))
    if len(places) == 1 and not places[0].exists():
        raise TraceNotFound(f"{name} does not exist; use a folder of results or their database")
    if len(places) == 1 and places[0].is_file():
        return Experiment(opened_results(places[0]), name)
    con = duckdb.connect(config={"threads": 2})
    try:
        fill(con, places, say=say, warn=warn)
    except BaseException:
        con.close()
        raise
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return Experiment(con, name)
