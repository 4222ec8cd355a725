"""The folder of a run, which is marked incomplete until everything is in it."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.errors import RunDirectoryExists
from capture.files import write_json

SCHEMA_VERSION = 1
_SCRATCH = ".scratch"


def require_free(path: Path) -> None:
    """Raises RunDirectoryExists if the path is a file or a folder that is not empty."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunDirectoryExists(
            f"{path} already exists; choose another folder with -o, or remove it"
        )


@dataclass(frozen=True)
class RunDirectory:
    """A folder with run.json, metrics.json, outputs.jsonl, steps.jsonl, log.txt and traces/."""

    path: Path

    @classmethod
    def create(cls, path: Path, facts: dict[str, Any]) -> "RunDirectory":
        """Creates the folder, with a run.json that says that the run is incomplete.

        Raises:
            RunDirectoryExists: the folder is not empty or cannot be created.
        """
        require_free(path)
        try:
            (path / _SCRATCH).mkdir(parents=True)
        except OSError as error:
            raise RunDirectoryExists(
                f"cannot write {path}: {error.strerror}; choose another folder with -o"
            ) from None
        directory = cls(path.resolve())
        directory.write(facts, status="incomplete", reason="still being recorded")
        return directory

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def scratch(self) -> Path:
        return self.path / _SCRATCH

    def write(self, facts: dict[str, Any], *, status: str, reason: str | None = None) -> None:
        write_run_json(self.path, facts, status=status, reason=reason)

    def finish(self, facts: dict[str, Any]) -> None:
        """Marks the run complete and removes the temporary files of the ranks."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.write(facts, status="complete")

    def abandon(self, facts: dict[str, Any], reason: str) -> None:
        """Marks the run incomplete with a reason; the log and everything else written stay."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.write(facts, status="incomplete", reason=reason)


def write_run_json(
    folder: Path, facts: dict[str, Any], *, status: str, reason: str | None = None
) -> None:
    """Replaces run.json atomically.

    Args:
        status: "complete" or "incomplete".
        reason: why the run is incomplete; None if it is complete.
    """
    head = {"schema_version": SCHEMA_VERSION, "status": status, "reason": reason}
    write_json(folder / "run.json", head | facts)
