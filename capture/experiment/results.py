"""The folder of an experiment's results, which says what is done and what is not.

    plan.json                 the plan as it was understood, all points, those left out
    model/                    a built-in architecture, if the plan names one
    points/ENGINE/POINT/repeat-N/   one repeat of a point: run.json and what it measured
    points/ENGINE/POINT/profiled/   the same under the profiler, a run directory with traces
    servers/ENGINE/repeat-N.M/      log of the Mth start of the server of that repeat

A repeat is there when its run.json says complete or failed; a folder without is of a run that was
killed, and is made again.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.errors import ResultsUnusable
from capture.experiment.points import Engine, Point
from capture.experiment.schedule import repeat_name
from capture.files import write_json

PLAN = "plan.json"
RUN = "run.json"
_LOCK = ".lock"
_DRAFT = ".draft"


@dataclass(frozen=True)
class Results:
    """The folder of an experiment, which this process alone writes, and tasks that it starts."""

    path: Path

    def folder(self, point: Point, repeat: int) -> Path:
        return self.path / "points" / point.path / repeat_name(repeat)

    def status(self, point: Point, repeat: int) -> str | None:
        """Complete or failed; None if it was not run, or was killed."""
        try:
            status = json.loads((self.folder(point, repeat) / RUN).read_text())["status"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return status if status in ("complete", "failed") else None

    def seconds(self, point: Point, repeat: int) -> float | None:
        """How long a complete repeat took; None if it is not complete."""
        if self.status(point, repeat) != "complete":
            return None
        facts = json.loads((self.folder(point, repeat) / RUN).read_text())
        return float(facts["experiment"]["seconds"])

    @contextmanager
    def repeat(self, point: Point, repeat: int) -> Iterator[Path]:
        """A draft of the folder of a repeat, which appears under its name after the block."""
        folder = self.folder(point, repeat)
        draft = folder.with_name(f"{_DRAFT}-{folder.name}")
        _remove(draft)
        draft.mkdir(parents=True)
        yield draft
        _remove(folder)
        draft.rename(folder)

    def server(self, engine: Engine, repeat: int) -> Path:
        """A new folder for a start of a server."""
        starts = self.path / "servers" / engine.key
        for number in range(1, 10_000):
            folder = starts / f"{repeat_name(repeat)}.{number}"
            if not folder.exists():
                folder.mkdir(parents=True)
                return folder
        raise ResultsUnusable(f"{starts} has too many starts; remove them")

    def write_plan(self, facts: dict[str, Any]) -> None:
        write_json(self.path / PLAN, facts)


def require_folder(path: Path) -> None:
    """Refuses a path that is there and is no folder.

    Raises:
        ResultsUnusable: it is one.
    """
    if path.exists() and not path.is_dir():
        raise ResultsUnusable(f"{path} is not a folder; name another one with -o")


@contextmanager
def opened(path: Path, *, resume: bool) -> Iterator[Results]:
    """Makes the folder, or goes on with one that is there.

    Raises:
        ResultsUnusable: it has something else, is used by another process, or cannot be written.
    """
    from filelock import FileLock, Timeout

    require_folder(path)
    if path.exists() and not resume and any(path.iterdir()):
        known = (path / PLAN).exists()
        raise ResultsUnusable(
            f"{path} has results already; add --resume to go on with them, or name another "
            "folder with -o"
            if known
            else f"{path} exists and has no results of an experiment; name another folder with -o"
        )
    if resume and path.exists() and any(path.iterdir()) and not (path / PLAN).exists():
        raise ResultsUnusable(f"{path} has no {PLAN}, so there is nothing to go on with")
    try:
        path.mkdir(parents=True, exist_ok=True)
        held = FileLock(path / _LOCK).acquire(timeout=0)
    except Timeout:
        raise ResultsUnusable(
            f"another traceql experiment run is writing {path}; wait for it"
        ) from None
    except OSError as error:
        raise ResultsUnusable(
            f"cannot write {path}: {error.strerror or error}; name another folder with -o"
        ) from None
    with held:
        yield Results(path.resolve())


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
