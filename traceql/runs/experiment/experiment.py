"""The results of experiments in one database, with queries by name and SQL."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb

from traceql.database.opening import opened_database
from traceql.database.tables import require_select, result
from traceql.errors import TraceNotFound, TraceqlError
from traceql.result import Result
from traceql.runs.experiment.documents import read_plan
from traceql.runs.experiment.results_folder import Reader, engine_titles
from traceql.runs.experiment.statistics import add_fits, add_gains, add_speedups, median_places
from traceql.runs.experiment.tables import (
    Rows,
    add_profiles,
    create_tables,
    derive,
    insert,
    storable,
)
from traceql.sql.query import LIMIT, Query, bound, queries_in, query_named
from traceql.util.files import atomic_write
from traceql.util.resources import QUERIES, __version__


def distinct_names(named: Sequence[tuple[str, str]]) -> list[str]:
    """A unique name for each (name, folder); equal names get the folder, or else a number."""
    times = Counter(name for name, _ in named)
    wanted = [
        name if times[name] == 1 or name == folder else f"{name} ({folder})"
        for name, folder in named
    ]
    taken, found = set[str](), list[str]()
    for name in wanted:
        number, own = 1, name
        while own in taken or (number > 1 and own in wanted):
            number += 1
            own = f"{name} {number}"
        taken.add(own)
        found.append(own)
    return found


def results_folders(paths: Sequence[Path]) -> list[Path]:
    """The folders of results at these paths, each one or a parent of several; or TraceqlError."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            what = "is not a folder of results" if path.exists() else "does not exist"
            raise TraceqlError(
                f"{path} {what}; use the folder that traceql experiment run wrote with -o"
            )
        inside = sorted(one.parent for one in path.glob("*/plan.json"))
        found += [path] if (path / "plan.json").exists() or not inside else inside
    by_place: dict[Path, Path] = {}
    for one in found:
        by_place.setdefault(one.resolve(), one)
    return list(by_place.values())


FORMAT = 1  # of the tables
MARK = "traceql_experiment"  # the table that identifies such a database
_BLOCK_BYTES = 16_384  # DuckDB's minimum, for many small tables
_NUMBERS_OF_REPEATS = """
SELECT DISTINCT COUNT(*)
FROM measurement
INNER JOIN repeat USING (repeat_id)
WHERE repeat.number > 0
GROUP BY measurement.point_id, measurement.metric, measurement.stat
"""


def opened_results(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection to a database of results; raises DatabaseError if it is none."""
    return opened_database(
        path,
        otherwise="load results with traceql experiment load RESULTS -o DB",
        mark=MARK,
        version=FORMAT,
        again="load the results again",
    )


def quiet(_text: str) -> None:
    """A no-op callback."""


def load_experiments(
    paths: Sequence[Path],
    database: Path,
    *,
    say: Callable[[str], None] = quiet,
    warn: Callable[[str], None] = quiet,
) -> None:
    """Writes a database with the results of folders, replacing an existing one at the end.

    Raises:
        TraceqlError: a folder has no results, or the file is something else or cannot be written.
    """
    if database.is_file():
        opened_results(database).close()  # other databases are not replaced
    with atomic_write(database, may_replace_database=True) as draft:
        con = duckdb.connect(str(draft), config={"threads": 2, "default_block_size": _BLOCK_BYTES})
        try:
            fill(con, paths, say=say, warn=warn)
        finally:
            con.close()


def fill(
    con: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    *,
    say: Callable[[str], None] = quiet,
    warn: Callable[[str], None] = quiet,
) -> None:
    """Creates and fills all tables in an empty database; see `load_experiments`."""
    folders = results_folders(paths)
    documents = [read_plan(folder) for folder in folders]
    titles = engine_titles(
        {
            (place, point.engine_key): point.engine
            for place, document in enumerate(documents)
            for point in document.all_points
        }
    )
    pairs = list(zip(folders, documents, strict=True))
    own_names = [folder.resolve().name for folder in folders]
    plan_names = [document.plan.name for document in documents]
    names = distinct_names([(a or b, b) for a, b in zip(plan_names, own_names, strict=True)])
    rows = Rows()
    for place, (folder, document) in enumerate(pairs):
        say(f"results: {folder}")
        own_titles = {key: title for (of, key), title in titles.items() if of == place}
        Reader(rows, folder, document, names[place], own_titles, warn).add_all()
    if not any(row["status"] == "complete" for row in rows.tables.get("repeat", ())):
        raise TraceqlError(
            f"{folders[0]} has no complete repeat; continue with traceql experiment run --resume"
        )
    con.execute(
        f"CREATE TABLE {MARK} AS SELECT {FORMAT} AS schema_version, '{__version__}' AS traceql"
    )
    create_tables(con)
    for table, own in rows.tables.items():
        insert(con, table, storable(table, own))
    numbers = [number for (number,) in con.execute(_NUMBERS_OF_REPEATS).fetchall()]
    insert(con, "median_place", list(median_places(numbers)))
    for table in ("point_value", "point_label"):
        derive(con, table)
    add_fits(con)
    add_speedups(con)
    add_gains(con)
    add_profiles(con, rows.profiled, say=say, warn=warn)
    for table in ("profile_step_part", "profile_main_stratum"):
        derive(con, table)


def experiment_queries() -> dict[str, Query]:
    return queries_in(QUERIES / "experiment")


class Experiment(AbstractContextManager["Experiment"]):
    """The results of one experiment or several, in the tables of a database."""

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
        """Runs one statement over the tables; raises QueryInvalid with DuckDB's message."""
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


def _database_in(path: Path) -> Path:
    """The database of a folder that has no plan; the path itself if there is none."""
    database = path / "results.duckdb"
    return database if database.is_file() and not (path / "plan.json").exists() else path


def experiment(
    *paths: str | Path,
    say: Callable[[str], None] = quiet,
    warn: Callable[[str], None] = quiet,
) -> Experiment:
    """Opens a database of experiments, or loads folders of results into memory.

    Args:
        paths: one database, the folder of a database results.duckdb, or folders that `traceql
            experiment run` has written.
        say: called with a line about each load, which can take minutes if points were profiled.
        warn: called with a line about each file that cannot be read.

    Raises:
        TraceqlError: there are no results.
    """
    places = [_database_in(Path(path)) for path in paths]
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
