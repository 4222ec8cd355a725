"""The runs of one side of a comparison, and baselines: sides saved as Parquet files.

The profile of a run is small tables of medians and sums, made by the SQL files in the folder
profile. Their strata are steps of one phase, one size and one length of the KV cache, which can be
compared with the same stratum of another run.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import duckdb

from traceql.database.cache import cached_database
from traceql.database.opening import opened_database
from traceql.database.tables import Tables
from traceql.errors import DatabaseError, TraceNotFound, TraceqlError
from traceql.runs.compare.setup import is_ignored
from traceql.util.files import is_database, write_folder
from traceql.util.resources import __version__
from traceql.util.text import Column, CommentHead, comment_head, described_columns, source_text

if TYPE_CHECKING:
    import pyarrow as pa

    Profile = Mapping[str, pa.Table]


_FOLDER = Path(__file__).parent / "profile"
# In the order in which they need each other.
_STEPS = ("unit", "unit_step", "member", "time_of_unit", "stratum")
RESULTS = (
    "stratum", "metric", "typical_part", "layer", "kernel_use", "lost", "window_part",
    "unnamed_kernel", "latency", "fact",
)  # fmt: skip
_OBJECTS = {"view": "VIEW", "step": "TABLE", "result": "TABLE"}


def profile_of(database: Path) -> "Profile":
    """The tables of one run, by name; raises DatabaseError if they cannot be made from the file."""
    con = opened_database(
        database, otherwise="load traces with traceql load TRACE... -o RUN.duckdb"
    )
    names = list(dict.fromkeys((*_STEPS, *RESULTS)))
    with closing(Tables(database, con)) as tables:
        try:
            con = tables.connection(*map(_sql, names))
            for name in names:
                kind = _OBJECTS[_head(name).only("kind")]
                con.execute(f"CREATE TEMP {kind} {name} AS {_sql(name)}")
            found = {name: con.sql(f"SELECT * FROM temp.{name}") for name in RESULTS}
            return {name: rows.to_arrow_table() for name, rows in found.items()}
        except duckdb.Error as error:
            raise DatabaseError(f"{database} cannot be compared: {error}") from None


def columns_of(name: str) -> tuple[Column, ...]:
    return described_columns(name, _head(name))


def summary_of(name: str) -> str:
    """What one row of a table is."""
    return _head(name).summary


@cache
def _sql(name: str) -> str:
    return source_text(_FOLDER / f"{name}.sql")


@cache
def _head(name: str) -> CommentHead:
    return comment_head(name, _sql(name), ("kind", "column"))


_DATABASE_SUFFIX = ".duckdb"
RUN_DOCUMENT = "run.json"
_AT_ONCE, _SMALL_BYTES = 2, 4_000_000  # loads at once, of runs up to this size (gzip)


@dataclass(frozen=True)
class RunProfile:
    """One run of a side, with the tables of its profile.

    Attributes:
        name: its path.
        database: None if only its profile was saved.
    """

    name: str
    database: Path | None
    profile: "Profile"


def runs_of(
    paths: Sequence[str | Path], *, say: Callable[[str], None] = lambda text: None
) -> list[RunProfile]:
    (runs,) = groups_of([paths], say=say)
    return runs


def groups_of(
    groups: Sequence[Sequence[str | Path]], *, say: Callable[[str], None] = lambda text: None
) -> list[list[RunProfile]]:
    """The runs of several sides. Each path is one run, several repeats, or a baseline.

    A folder with databases, or with run directories, holds one repeat for each. Small traces are
    loaded two at a time, large ones alone, because a load needs memory.

    Args:
        groups: the paths of each side.
        say: called with a line before each load.

    Raises:
        TraceNotFound: a path does not exist, or there is nothing to compare in it.
        TraceqlError: a database or a trace cannot be read.
    """
    found = [[one for path in map(Path, paths) for one in _runs_at(path)] for paths in groups]
    paths = list(dict.fromkeys(one for side in found for one in side if isinstance(one, Path)))

    def database(path: Path) -> Path:
        if path.is_file() and is_database(path):
            return path
        return cached_database([path], None, say=lambda: say(f"loading {path} ..."))

    def size_bytes(path: Path) -> int:
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())

    small = [path for path in paths if size_bytes(path) <= _SMALL_BYTES]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        databases = dict(zip(small, pool.map(database, small), strict=True))
    databases |= {path: database(path) for path in paths if path not in databases}
    distinct = list(dict.fromkeys(databases.values()))
    with ThreadPoolExecutor() as pool:
        profiles = dict(zip(distinct, pool.map(profile_of, distinct), strict=True))

    def run(one: Path | RunProfile) -> RunProfile:
        if isinstance(one, RunProfile):
            return one
        return RunProfile(str(one), databases[one], profiles[databases[one]])

    return [[run(one) for one in side] for side in found]


def _runs_at(path: Path) -> Sequence[Path | RunProfile]:
    """The runs at a path: of a baseline, or each a database, run directory, folder or trace."""
    if is_baseline(path):
        return [RunProfile(f"{path}: {name}", None, own) for name, own in saved_profiles(path)]
    if not path.exists():
        raise TraceNotFound(f"{path} does not exist; use a database, a run directory or a trace")
    if not path.is_dir() or (path / RUN_DOCUMENT).exists():
        return [path]
    inside = sorted(path.iterdir())
    databases = [one for one in inside if one.suffix == _DATABASE_SUFFIX and one.is_file()]
    repeats = [one for one in inside if (one / RUN_DOCUMENT).exists()]
    if databases and repeats:
        raise TraceqlError(
            f"{path} has databases and run directories, perhaps of the same runs; name them "
            "one by one with --base and --new"
        )
    others = [
        one
        for one in inside
        if one.is_dir() and not one.name.startswith(".") and one not in repeats
    ]
    if repeats and others:  # a failed start must not be dropped from the sample silently
        raise TraceqlError(
            f"{others[0]} is among the run directories of {path}, but has no {RUN_DOCUMENT}; "
            "move it away, or name the repeats one by one with --base and --new"
        )
    return databases or repeats or [path]


MANIFEST = "baseline.json"
_FORMAT = 1  # of the manifest and of the tables
_RUN = "run"  # the column of the number of the run
_TYPES = {  # of DuckDB, and what they may be in Parquet
    "BIGINT": ("int64", "null"),
    "DOUBLE": ("double", "null"),
    "VARCHAR": ("string", "large_string", "null"),
}


def is_baseline(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def require_free(folder: Path, *, replace: bool) -> None:
    """Raises TraceqlError if the folder has other files, or a baseline that is to be kept."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not is_baseline(folder):
        raise TraceqlError(f"{folder} exists and is not a baseline; give another name")
    if not replace:
        raise TraceqlError(f"{folder} is a baseline already; --replace replaces it")


def save_baseline(runs: Sequence["RunProfile"], folder: Path, *, replace: bool = False) -> None:
    """Writes a baseline: a folder with a manifest and one Parquet file for each table.

    It has no paths, secrets and identifiers of the machine that recorded the runs. Raises
    TraceqlError if the folder holds other files, or a baseline without `replace`.
    """
    require_free(folder, replace=replace)
    manifest = {
        "format": _FORMAT,
        "traceql": __version__,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "runs": [Path(run.name).name for run in runs],
    }
    files = {f"{name}.parquet": _parquet(name, runs) for name in RESULTS}
    write_folder(folder, {**files, MANIFEST: json.dumps(manifest, indent=2).encode() + b"\n"})


def _parquet(name: str, runs: Sequence["RunProfile"]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for number, run in enumerate(runs):
        rows = run.profile[name]
        if name == "fact":
            rows = rows.filter([not is_ignored(fact) for fact in rows["name"].to_pylist()])
        tables.append(rows.append_column(_RUN, pa.array([number] * len(rows), pa.int64())))
    file = BytesIO()
    pq.write_table(pa.concat_tables(tables), file, compression="zstd")
    return file.getvalue()


class Manifest(NamedTuple):
    """The manifest of a baseline: the version that saved it, when (UTC), and names of its runs."""

    traceql: str
    saved: str
    runs: tuple[str, ...]


def manifest_of(folder: Path) -> Manifest:
    """The manifest of a baseline; raises TraceqlError if it is none, or of another format."""
    if not is_baseline(folder):
        raise TraceqlError(f"{folder} is not a baseline; traceql baseline save NAME makes one")
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        known, runs = found["format"], found["runs"]
        if known == _FORMAT and not (
            isinstance(runs, list) and runs and all(isinstance(run, str) for run in runs)
        ):
            raise ValueError
        manifest = Manifest(str(found.get("traceql", "")), str(found.get("saved", "")), (*runs,))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        raise TraceqlError(f"{folder / MANIFEST} is damaged; save the baseline again") from None
    if known != _FORMAT:
        raise TraceqlError(
            f"{folder} was saved by another version of traceql (format {known}, this one reads "
            f"{_FORMAT}); save it again with traceql baseline save"
        )
    return manifest


def saved_profiles(folder: Path) -> Iterator[tuple[str, "Profile"]]:
    """The name and tables of each run of a baseline; raises TraceqlError if it cannot be used."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    names = manifest_of(folder).runs
    try:
        tables = {name: pq.read_table(folder / f"{name}.parquet") for name in RESULTS}
    except (OSError, pa.ArrowException):
        raise TraceqlError(
            f"a file of the baseline {folder} is missing or damaged; save it again"
        ) from None
    for name, table in tables.items():
        types = {column.name: column.type for column in columns_of(name)}
        if set(table.column_names) != {*types, _RUN}:
            raise TraceqlError(
                f"{folder / name}.parquet has other columns; save the baseline again"
            )
        if any(
            str(table.schema.field(column).type) not in _TYPES[kind]
            or (column == "ns" and table[column].null_count)
            for column, kind in types.items()
        ):
            raise TraceqlError(f"{folder / name}.parquet has wrong values; save the baseline again")
    if set(tables["fact"][_RUN].to_pylist()) != set(range(len(names))):
        raise TraceqlError(
            f"{folder / MANIFEST} names {len(names)} runs, and the tables have others; save the "
            "baseline again"
        )
    for number, run in enumerate(names):
        own = (table.filter(pc.equal(table[_RUN], number)) for table in tables.values())
        yield run, dict(zip(tables, (rows.drop_columns([_RUN]) for rows in own), strict=True))
