"""Finds the runs in a folder, at any depth: databases, run directories and baselines."""

from collections.abc import Iterator
from pathlib import Path

from traceql.errors import TraceNotFound, TraceqlError
from traceql.runs.compare.baseline import is_baseline
from traceql.util.files import is_database

_DATABASE_SUFFIXES = (".duckdb", ".db")
_RUN_DOCUMENT = "run.json"


def run_places(folder: Path) -> list[Path]:
    """The places of runs, by their paths. What is inside a run is not looked at.

    Raises:
        TraceNotFound: the folder does not exist, or has no run in it.
        TraceqlError: it is no folder, or cannot be read.
    """
    if not folder.exists():
        raise TraceNotFound(f"{folder} does not exist; name a folder with the runs of a history")
    if not folder.is_dir():
        raise TraceqlError(f"{folder} is one file; name the folder that holds all runs")
    try:
        found = list(_places(folder, set()))
    except OSError as error:
        raise TraceqlError(f"{error.filename}: {error.strerror or error}") from None
    if not found:
        raise TraceNotFound(
            f"{folder} has no database, run directory or baseline in it; load traces with "
            f"traceql load TRACE... -o {folder / 'RUN.duckdb'}"
        )
    return found


def _places(folder: Path, seen: set[Path]) -> Iterator[Path]:
    if folder.resolve() in seen:
        return  # a link leads back
    seen.add(folder.resolve())
    if is_baseline(folder) or (folder / _RUN_DOCUMENT).is_file():
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _places(path, seen)
        elif path.suffix in _DATABASE_SUFFIXES and path.is_file() and is_database(path):
            yield path
