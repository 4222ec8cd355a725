"""Checks a lake: every file is there and as it was written, and there are no others."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote

from traceql.errors import LakeError
from traceql.runs.lake.manifest import Entry, files_of, read_row, require_lake, row_names
from traceql.runs.lake.places import store_at
from traceql.runs.lake.store import Store
from traceql.runs.lake.strays import strays


@dataclass(frozen=True)
class Problem:
    """What is wrong with a lake, and what to do.

    Attributes:
        kind: missing, damaged, stray, row or failed; a failed run is no fault of the lake.
        name: the file, or the run that failed.
        advice: what to do.
    """

    kind: str
    name: str
    advice: str

    @property
    def is_fault(self) -> bool:
        return self.kind != "failed"


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Attributes:
        runs: how many runs there are.
        files: how many files were checked.
        size_bytes: of these files.
        problems: in the order of the lake.
    """

    runs: int
    files: int
    size_bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not any(one.is_fault for one in self.problems)


def check_lake(lake: str, *, content: bool = True) -> Checked:
    """Checks all files of a lake.

    Args:
        content: whether each file is read and its SHA-256 compared; else its size alone is.

    Raises:
        LakeError: the folder is not a lake.
    """
    store = store_at(lake)
    require_lake(store)
    found, problems = _rows(store)
    files = files_of(found)
    problems += _of_files(store, found, content=content)
    if not any(one.kind == "row" for one in problems):  # whose files would seem to be strays
        problems += _of_strays(store, found)
    problems += [
        Problem("failed", one.run, f"{one.error}; add it again, or traceql lake remove {one.run}")
        for one in found
        if not one.is_ok
    ]
    size = sum(one.size_bytes for one in files.values())
    return Checked(len(found), len(files), size, tuple(problems))


def _rows(store: Store) -> tuple[list[Entry], list[Problem]]:
    found, problems = [], []
    for name in row_names(store):
        try:
            entry = read_row(store, name)
        except LakeError:
            advice = f"remove {store.place}/{name} and add the run again"
            problems.append(Problem("row", name, advice))
        else:
            found += [entry] if entry else []
    return found, problems


def _of_files(store: Store, found: list[Entry], *, content: bool) -> Iterator[Problem]:
    runs = defaultdict(list)
    for entry in found:
        for one in entry.tables.values():
            runs[one.file].append(entry)
    for name, one in sorted(files_of(found).items()):
        size = store.size(name)
        if size is None:
            yield Problem("missing", name, _again(store, runs[name]))
        elif size != one.size_bytes or (content and store.sha256(name) != one.sha256):
            yield Problem("damaged", name, _again(store, runs[name]))


def _again(store: Store, found: list[Entry]) -> str:
    sources = " ".join(quote(entry.source) for entry in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"traceql lake add {sources}{more} --again --lake {quote(store.place)}"


def _of_strays(store: Store, found: list[Entry]) -> Iterator[Problem]:
    for name in strays(store, found):
        yield Problem("stray", name, f"traceql lake compact --lake {quote(store.place)} removes it")
