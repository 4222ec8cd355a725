"""Commands that write files, and checks that their files are complete."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from drills.database_oracle import disagreement, rows
from drills.seeds import OLD_RANK, loaded_alone, old_database, seed_traces
from drills.trace_oracle import inflated, slices_of, truth_of

TRACE = "rank0.json"
LOADED = "loaded.duckdb"
OLD = b"old content, which stays until there is a new one"


@dataclass(frozen=True)
class Writing:
    """A command that writes.

    Attributes:
        target: the file that it writes, or the folder.
        wrong: what is wrong with a target that the command has written; None if nothing is.
        old: the content of the target before, or None if it is absent; for folders, that of a file
            in it.
    """

    arguments: Sequence[str]
    target: str
    wrong: Callable[[Path], str | None]
    old: Callable[[], bytes | None] = lambda: OLD


@cache
def trace_text() -> bytes:
    return json.dumps(seed_traces()[1]).encode()


@cache
def loaded_database() -> Path:
    """A database of the seed. The first call must come from the process that starts the rest."""
    return loaded_alone(TRACE, trace_text(), LOADED)


def fill(folder: Path, writing: Writing) -> None:
    """Puts everything that a command needs into a folder, and an old version of its target."""
    (folder / TRACE).write_bytes(trace_text())
    (folder / LOADED).write_bytes(loaded_database().read_bytes())
    old = writing.old()
    if old is not None:
        (folder / writing.target).write_bytes(old)


def wrong_database(path: Path) -> str | None:
    """How a database of the seed differs from its trace; None if it does not."""
    return disagreement(path, truth_of(trace_text()))


def _with_old_rank(path: Path) -> str | None:
    ranks = rows(path, "SELECT rank FROM trace ORDER BY rank")
    return wrong_database(path) if (OLD_RANK,) in ranks else f"it has the ranks {ranks}"


def _ends(end: bytes) -> Callable[[Path], str | None]:
    def wrong(path: Path) -> str | None:
        return None if path.read_bytes().rstrip().endswith(end) else f"{path.name} is cut off"

    return wrong


def _json(path: Path) -> str | None:
    try:
        return None if json.loads(path.read_bytes()) else f"{path.name} is empty"
    except ValueError as error:
        return f"{path.name}: {error}"


def _csv_folder(path: Path) -> str | None:
    files = list(path.glob("*.csv"))
    for file in files:
        widths = {
            len(row) for row in csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))
        }
        if len(widths) > 1 or not file.read_bytes().endswith(b"\n"):
            return f"{file.name} is cut off"
    return None if len(files) > 10 else f"only {len(files)} files in {path.name}"


def _packets(path: Path) -> str | None:
    unpacked = inflated(path.read_bytes())
    found = None if unpacked is None else slices_of(unpacked)
    return None if found and found.began > 100 else f"{path.name} is cut off"


_LOAD = ("load", TRACE, "-o", "run.duckdb")
_REPORT = ("report", LOADED, "--format")
_CHART = ("run", "kernels.top", LOADED, "--chart", "run.svg")
COMMANDS = {
    "load": Writing(_LOAD, "run.duckdb", wrong_database, lambda: None),
    "load into a database": Writing(
        _LOAD, "run.duckdb", _with_old_rank, lambda: old_database().read_bytes()
    ),
    "report": Writing(("report", LOADED, "-o", "run.html"), "run.html", _ends(b"</html>")),
    "report json": Writing((*_REPORT, "json", "-o", "run.json"), "run.json", _json),
    "report csv": Writing((*_REPORT, "csv", "-o", "tables"), "tables", _csv_folder, lambda: None),
    "export": Writing(("export", "perfetto", LOADED, "-o", "run.pftrace"), "run.pftrace", _packets),
    "chart": Writing(_CHART, "run.svg", _ends(b"</svg>")),
}
