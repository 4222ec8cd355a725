"""A run's folder: marked incomplete from its first moment until everything is in it."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.errors import RunDirectoryExists

SCHEMA_VERSION = 1
_SCRATCH = ".scratch"


def require_free(path: Path) -> None:
    """Raises RunDirectoryExists where a run directory cannot be made for what is there."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunDirectoryExists(f"{path} exists; choose another name with -o, or remove it")


@dataclass(frozen=True)
class RunDirectory:
    """`runs/<name>/` with run.json, metrics.json, outputs.jsonl, steps.jsonl, log.txt, traces/."""

    path: Path

    @classmethod
    def create(cls, path: Path, facts: dict[str, Any]) -> "RunDirectory":
        """A new folder, whose run.json says that it is incomplete.

        Raises:
            RunDirectoryExists: the folder has contents, or cannot be made.
        """
        require_free(path)
        try:
            (path / _SCRATCH).mkdir(parents=True)
        except OSError as error:
            raise RunDirectoryExists(
                f"cannot write {path}: {error.strerror}; choose another place with -o"
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
        """Marks the run complete; what ranks left behind in passing goes."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.write(facts, status="complete")

    def abandon(self, facts: dict[str, Any], reason: str) -> None:
        """Marks the run incomplete, and says why; log and whatever was written stay."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.write(facts, status="incomplete", reason=reason)


def write_run_json(
    folder: Path, facts: dict[str, Any], *, status: str, reason: str | None = None
) -> None:
    """Replaces run.json in one step.

    Args:
        status: complete or incomplete.
        reason: why a run is incomplete.
    """
    head = {"schema_version": SCHEMA_VERSION, "status": status, "reason": reason}
    draft = folder / ".run.json"
    draft.write_text(json.dumps(head | facts, indent=1) + "\n")
    draft.replace(folder / "run.json")
