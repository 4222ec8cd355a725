"""The runs of one side of a comparison, and baselines: sides saved as Parquet files."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from traceql.database.cache import cached_database
from traceql.errors import TraceNotFound, TraceqlError
from traceql.runs.compare.profile import RESULTS, columns_of, profile_of
from traceql.runs.compare.setup import is_ignored
from traceql.util.files import is_database, write_folder
from traceql.util.resources import __version__

if TYPE_CHECKING:
    import pyarrow as pa

    from traceql.runs.compare.profile import Profile


_DATABASE_SUFFIX = ".duckdb"
_RUN_DOCUMENT = "run.json"
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
    """The runs at these paths; see `groups_of`."""
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
    found = [
        [one for path in map(Path, paths) for one in (_saved(path) or _run_paths(path))]
        for paths in groups
    ]
    paths = list(dict.fromkeys(one for side in found for one in side if isinstance(one, Path)))
    small = [path for path in paths if _size_bytes(path) <= _SMALL_BYTES]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        loaded = pool.map(lambda path: _database(path, say), small)
        databases = dict(zip(small, loaded, strict=True))
    databases |= {path: _database(path, say) for path in paths if path not in databases}
    distinct = list(dict.fromkeys(databases.values()))
    with ThreadPoolExecutor() as pool:
        profiles = dict(zip(distinct, pool.map(profile_of, distinct), strict=True))
    return [
        [
            RunProfile(str(one), databases[one], profiles[databases[one]])
            if isinstance(one, Path)
            else one
            for one in side
        ]
        for side in found
    ]


def _size_bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _saved(path: Path) -> list[RunProfile]:
    """The runs of a baseline; empty for other paths."""
    if not is_baseline(path):
        return []
    return [RunProfile(f"{path}: {name}", None, own) for name, own in saved_profiles(path)]


def _run_paths(path: Path) -> list[Path]:
    """The runs at a path, each a database, a run directory, a folder of ranks or a trace."""
    if not path.exists():
        raise TraceNotFound(f"{path} does not exist; use a database, a run directory or a trace")
    if not path.is_dir() or (path / _RUN_DOCUMENT).exists():
        return [path]
    inside = sorted(path.iterdir())
    databases = [one for one in inside if one.suffix == _DATABASE_SUFFIX and one.is_file()]
    repeats = [one for one in inside if (one / _RUN_DOCUMENT).exists()]
    if databases and repeats:
        raise TraceqlError(
            f"{path} has databases and run directories, perhaps of the same runs; name them "
            "one by one with --base and --new"
        )
    others = [one for one in inside if one.is_dir() and not one.name.startswith(".")]
    others = [one for one in others if one not in repeats]
    if repeats and others:  # a failed start must not be dropped from the sample silently
        raise TraceqlError(
            f"{others[0]} is among the run directories of {path}, but has no {_RUN_DOCUMENT}; "
            "move it away, or name the repeats one by one with --base and --new"
        )
    return databases or repeats or [path]


def _database(path: Path, say: Callable[[str], None]) -> Path:
    if path.is_file() and is_database(path):
        return path
    return cached_database([path], None, say=lambda: say(f"loading {path} ..."))


_MANIFEST = "baseline.json"
_FORMAT = 1  # of the manifest and of the tables
_RUN = "run"  # the column of the number of the run
_TYPES = {  # of DuckDB, and what they may be in Parquet
    "BIGINT": ("int64", "null"),
    "DOUBLE": ("double", "null"),
    "VARCHAR": ("string", "large_string", "null"),
}


def is_baseline(path: Path) -> bool:
    return (path / _MANIFEST).is_file()


def require_free(folder: Path, *, replace: bool) -> None:
    """Requires that a baseline may be written there.

    Raises:
        TraceqlError: the folder holds other files, or a baseline that is not to be replaced.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not is_baseline(folder):
        raise TraceqlError(f"{folder} exists and is not a baseline; give another name")
    if not replace:
        raise TraceqlError(f"{folder} is a baseline already; --replace replaces it")


def save_baseline(runs: Sequence["RunProfile"], folder: Path, *, replace: bool = False) -> None:
    """Writes a baseline: a folder with a manifest and one Parquet file for each table.

    It has no paths, secrets and identifiers of the machine that recorded the runs.

    Args:
        replace: whether it may replace another baseline.

    Raises:
        TraceqlError: the folder holds other files, or it cannot be written.
    """
    require_free(folder, replace=replace)
    manifest = {
        "format": _FORMAT,
        "traceql": __version__,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "runs": [Path(run.name).name for run in runs],
    }
    files = {f"{name}.parquet": _parquet(name, runs) for name in RESULTS}
    write_folder(folder, {**files, _MANIFEST: json.dumps(manifest, indent=2).encode() + b"\n"})


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


def _is_sound(name: str, rows: "pa.Table") -> bool:
    """Whether the columns have the declared types, and no NULL in ns."""
    types = {column.name: column.type for column in columns_of(name)}
    for column in types:
        found = str(rows.schema.field(column).type)
        if found not in _TYPES[types[column]] or (column == "ns" and rows[column].null_count):
            return False
    return True


@dataclass(frozen=True)
class Manifest:
    """The manifest of a baseline.

    Attributes:
        traceql: the version that saved it.
        saved: when, in UTC.
        runs: the names of its runs.
    """

    traceql: str
    saved: str
    runs: tuple[str, ...]


def manifest_of(folder: Path) -> Manifest:
    """The manifest of a baseline.

    Raises:
        TraceqlError: it is not a baseline, or one of another format, or damaged.
    """
    if not is_baseline(folder):
        raise TraceqlError(f"{folder} is not a baseline; traceql baseline save NAME makes one")
    try:
        found = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        known, runs = found["format"], found["runs"]
        if known == _FORMAT and not (
            isinstance(runs, list) and runs and all(isinstance(run, str) for run in runs)
        ):
            raise ValueError
        manifest = Manifest(str(found.get("traceql", "")), str(found.get("saved", "")), (*runs,))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        raise TraceqlError(f"{folder / _MANIFEST} is damaged; save the baseline again") from None
    if known != _FORMAT:
        raise TraceqlError(
            f"{folder} was saved by another version of traceql (format {known}, this one reads "
            f"{_FORMAT}); save it again with traceql baseline save"
        )
    return manifest


def saved_profiles(folder: Path) -> Iterator[tuple[str, "Profile"]]:
    """The name and the tables of each run of a baseline.

    Raises:
        TraceqlError: another version of traceql saved it, or a file is missing or damaged.
    """
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
        expected = {column.name for column in columns_of(name)} | {_RUN}
        if set(table.column_names) != expected:
            raise TraceqlError(
                f"{folder / name}.parquet has other columns; save the baseline again"
            )
        if not _is_sound(name, table):
            raise TraceqlError(f"{folder / name}.parquet has wrong values; save the baseline again")
    if set(tables["fact"][_RUN].to_pylist()) != set(range(len(names))):
        raise TraceqlError(
            f"{folder / _MANIFEST} names {len(names)} runs, and the tables have others; save the "
            "baseline again"
        )
    for number, run in enumerate(names):
        yield (
            run,
            {
                name: table.filter(pc.equal(table[_RUN], number)).drop_columns([_RUN])
                for name, table in tables.items()
            },
        )
