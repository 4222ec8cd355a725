"""Finds folders of results and loads them into one database."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb

from traceql.database.opening import opened_database
from traceql.errors import TraceqlError
from traceql.runs.experiment.documents import read_plan
from traceql.runs.experiment.profiles import add_profiles
from traceql.runs.experiment.results_folder import add_folder, engine_titles
from traceql.runs.experiment.statistics import add_fits, add_gains, add_speedups, median_places
from traceql.runs.experiment.tables import Rows, create_tables, derive, insert, storable
from traceql.util.files import atomic_write
from traceql.util.resources import __version__


def distinct_names(named: Sequence[tuple[str, str]]) -> list[str]:
    """A unique name for each experiment.

    Args:
        named: name and folder of each; equal names get the folder, or else a number.
    """
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
    """The folders of results at these paths, each a folder of results or a parent of several.

    Raises:
        TraceqlError: a path does not exist or is a file.
    """
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
    """A read-only connection to a database of results.

    Raises:
        DatabaseError: the file is not one, or cannot be opened.
    """
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

    Args:
        paths: folders of results, or parents of several.
        database: the file to write.
        say: called with a line about each load.
        warn: called with a line about each file that cannot be read and is skipped.

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
    names = distinct_names(
        [
            (document.plan.name or folder.resolve().name, folder.resolve().name)
            for folder, document in zip(folders, documents, strict=True)
        ]
    )
    rows = Rows()
    for place, (folder, document) in enumerate(zip(folders, documents, strict=True)):
        say(f"results: {folder}")
        own_titles = {key: title for (of, key), title in titles.items() if of == place}
        add_folder(rows, folder, document, names[place], own_titles, warn)
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
    derive(con, "point_value")
    derive(con, "point_label")
    add_fits(con)
    add_speedups(con)
    add_gains(con)
    add_profiles(con, rows.profiled, say=say, warn=warn)
    derive(con, "profile_step_part")
    derive(con, "profile_main_stratum")
