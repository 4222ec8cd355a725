"""The runs of one side of a comparison: databases, run directories, traces, or a saved baseline."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from traceql.database.cache import cached_database
from traceql.errors import TraceNotFound, TraceqlError
from traceql.runs.compare.baseline import is_baseline, saved_profiles
from traceql.runs.compare.profile import profile_of
from traceql.util.files import is_database

if TYPE_CHECKING:
    from traceql.runs.compare.profile import Profile

_DATABASE_SUFFIX = ".duckdb"
_RUN_DOCUMENT = "run.json"
_AT_ONCE, _SMALL_BYTES = 2, 4_000_000  # loads at once, of runs up to this size (gzip)


@dataclass(frozen=True)
class Run:
    """One run of a side.

    Attributes:
        name: where it comes from.
        database: its database; None if only its profile was saved.
        profile: what the comparison needs of it.
    """

    name: str
    database: Path | None
    profile: "Profile"


def runs_of(
    paths: Sequence[str | Path], *, say: Callable[[str], None] = lambda text: None
) -> list[Run]:
    """The runs that paths name: each path is one run, several repeats, or a baseline.

    A folder with databases, or with run directories, holds one repeat for each.

    Args:
        paths: at least one.
        say: is told what is loaded, before it is.

    Raises:
        TraceNotFound: a path does not exist, or there is nothing to compare in it.
        TraceqlError: a database or a trace cannot be read.
    """
    (runs,) = groups_of([paths], say=say)
    return runs


def groups_of(
    groups: Sequence[Sequence[str | Path]], *, say: Callable[[str], None] = lambda text: None
) -> list[list[Run]]:
    """The runs of several sides, whose small traces are loaded two at a time.

    Args:
        groups: the paths of each side, as in `runs_of`.
        say: is told what is loaded, before it is.

    Raises:
        TraceNotFound: a path does not exist, or there is nothing to compare in it.
        TraceqlError: a database or a trace cannot be read.
    """
    found = [[_found(Path(path)) for path in paths] for paths in groups]
    places = dict.fromkeys(place for side in found for _, inside in side for place in inside)
    databases = _databases(list(places), say)
    distinct = list(dict.fromkeys(databases.values()))
    with ThreadPoolExecutor() as pool:
        profiles = dict(zip(distinct, pool.map(profile_of, distinct), strict=True))
    return [
        [
            run
            for saved, inside in side
            for run in (
                *saved,
                *(Run(str(one), databases[one], profiles[databases[one]]) for one in inside),
            )
        ]
        for side in found
    ]


def _found(path: Path) -> tuple[list[Run], list[Path]]:
    """The saved runs of a path, and those that have traces or a database."""
    return (list(_saved(path)), []) if is_baseline(path) else ([], _places(path))


def _databases(places: Sequence[Path], say: Callable[[str], None]) -> dict[Path, Path]:
    """The database of each place; large traces are loaded alone, because a load needs memory."""
    small = [place for place in places if _size_bytes(place) <= _SMALL_BYTES]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        databases = dict(zip(small, pool.map(lambda one: _database(one, say), small), strict=True))
    return databases | {one: _database(one, say) for one in places if one not in databases}


def _size_bytes(place: Path) -> int:
    files = place.rglob("*") if place.is_dir() else [place]
    return sum(file.stat().st_size for file in files if file.is_file())


def _saved(path: Path) -> Iterator[Run]:
    for name, profile in saved_profiles(path):
        yield Run(f"{path}: {name}", None, profile)


def _places(path: Path) -> list[Path]:
    """The runs of a path, each a database, a run directory, a folder of ranks or a trace."""
    if not path.exists():
        raise TraceNotFound(f"{path} does not exist; name a database, a run directory or a trace")
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
    if repeats:
        _require_all_runs(path, inside, repeats)
    return databases or repeats or [path]


def _require_all_runs(folder: Path, inside: Sequence[Path], repeats: Sequence[Path]) -> None:
    """A start that crashed must not vanish from the sample unnoticed."""
    others = [one for one in inside if one.is_dir() and one not in repeats]
    others = [one for one in others if not one.name.startswith(".")]
    if others:
        raise TraceqlError(
            f"{others[0]} is among the run directories of {folder}, but has no {_RUN_DOCUMENT}; "
            "move it away, or name the repeats one by one with --base and --new"
        )


def _database(place: Path, say: Callable[[str], None]) -> Path:
    if place.is_file() and is_database(place):
        return place
    return cached_database([place], None, say=lambda: say(f"loading {place} ..."))
