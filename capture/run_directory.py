"""The run directory, which is marked incomplete until everything is in it."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.errors import RunDirectoryExists


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a hidden draft for the block to write, which then replaces `path`.

    An error in the block removes the draft and leaves `path` unchanged. The draft has the suffix of
    `path`, because PyTorch compresses a trace only if its name ends in .gz.
    """
    draft = path.with_name(f".{path.name}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Replaces a JSON file."""
    with atomic_write(path) as draft:
        draft.write_text(json.dumps(value, indent=1) + "\n")


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
        """Creates the folder, with a run.json whose status is incomplete.

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


def one_line(error: BaseException) -> str:
    """The message of an error, for run.json."""
    return " ".join(str(error).split()) or type(error).__name__


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


# Each pass, and vLLM, append a suffix after a slash to the id of a request; a server adds a prefix.
_WORKLOAD_ID = re.compile(r"(?:cmpl-)?([^/]+)/")


def rank_folder(scratch: Path, rank: int) -> Path:
    return scratch / f"rank{rank}"


def collected_ranks(scratch: Path) -> list[dict[str, Any]]:
    """The rank.json of each rank, in the order of ranks."""
    folders = sorted(scratch.glob("rank*"), key=lambda folder: int(folder.name[4:]))
    return [json.loads((folder / "rank.json").read_text()) for folder in folders]


def write_steps(folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> None:
    """Writes steps.jsonl from the notes of the ranks about the profiled pass."""
    with (folder / "steps.jsonl").open("w") as steps:
        for rank in (facts["rank"] for facts in ranks):
            notes = json.loads(notes_of_steps(scratch, rank).read_text())
            for number, iteration in enumerate(notes["iterations"]):
                row = {
                    "rank": rank,
                    "number": number,
                    "begin_unix_ns": iteration["begin_unix_ns"],
                    "requests": _by_request(iteration["scheduled"]),
                    "computed": _by_request(iteration["computed"]),
                }
                steps.write(json.dumps(row) + "\n")


def notes_of_steps(scratch: Path, rank: int) -> Path:
    """The file with a rank's notes about the profiled pass."""
    return rank_folder(scratch, rank) / "profiled.json"


def _by_request(tokens: dict[str, int]) -> dict[str, int]:
    """Counts of tokens by the id of the request in the workload."""
    return {
        match[1] if (match := _WORKLOAD_ID.match(name)) else name: count
        for name, count in tokens.items()
    }
