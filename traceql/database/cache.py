"""A cache of databases, for traces that are opened without loading them into a named one."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from traceql.database.loading.discovery import paths_beside, profile_files, trace_files
from traceql.errors import TraceqlError
from traceql.util.files import is_database, size_and_mtime
from traceql.util.resources import PACKAGE, SCHEMA_VERSION, __version__, cache_folder

_RECIPE_SUFFIXES = {".csv", ".py", ".sql", ".toml"}


def database_of(
    path: str | Path, *paths: str | Path, trace_processor: str | Path | None = None
) -> Path:
    """A database, or that of trace files and folders, which are loaded unless they are cached.

    Raises:
        TraceqlError: the path does not exist or cannot be loaded.
    """
    if not paths and is_database(Path(path)):
        return Path(path)
    try:
        return cached_database([path, *paths], trace_processor)
    except OSError as error:
        raise TraceqlError(f"cannot use the cache folder: {error}") from None


def cached_database(
    paths: Sequence[str | Path],
    trace_processor: str | Path | None,
    *,
    peaks: Sequence[Path] = (),
    say: Callable[[], None] = lambda: None,
) -> Path:
    """A database with exactly these traces, from the cache or loaded now.

    A database in the cache is used as long as the path, size and modification time of every trace,
    of every profile and of every file beside them that a load reads are the same, no such file
    comes or goes, and traceql would make the same database from them.

    Args:
        peaks: files of measured ceilings; they count before those in run directories.
    """
    given = [Path(p) for p in paths]
    files = [*trace_files(given), *profile_files(given)]
    stats = [(str(file), size_and_mtime(file)) for file in (*files, *paths_beside(files), *peaks)]
    recipe = hashlib.sha256()  # of all files of the package: tables, rules, families and code
    for file in sorted(PACKAGE.rglob("*.*")):
        if file.suffix in _RECIPE_SUFFIXES:
            recipe.update(file.read_bytes())
    made_of = repr((SCHEMA_VERSION, __version__, recipe.hexdigest(), stats))
    key = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    cache = cache_folder()
    if cache is None:
        raise TraceqlError(
            "there is no folder for a cache, not even a temporary one; set XDG_CACHE_HOME, or load "
            "into a file with traceql load TRACE... -o run.duckdb"
        )
    database = cache / "databases" / f"{key}.duckdb"
    database.parent.mkdir(parents=True, exist_ok=True)
    if not database.exists():
        from traceql.database.loading.load import load

        say()
        load(files, database, trace_processor=trace_processor, peaks=peaks)
    return database
