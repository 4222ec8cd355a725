"""The run directory, marked incomplete until everything is in it, and a recorder of programs."""

import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capture.errors import CaptureError
from capture.redaction import without_secrets


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
    """Replaces a file, without the secrets in the value."""
    with atomic_write(path) as draft:
        draft.write_text(json.dumps(without_secrets(value), indent=1) + "\n")


SCHEMA_VERSION = 1
SCHEDULER = "scheduler.jsonl"
_SCRATCH = ".scratch"


def require_free(path: Path) -> None:
    """Raises CaptureError if the path is a file or a folder that is not empty."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise CaptureError(f"{path} already exists; choose another folder with -o, or remove it")


@dataclass(frozen=True)
class RunDirectory:
    """A folder with run.json, metrics.json, outputs.jsonl, steps.jsonl, log.txt and traces/."""

    path: Path

    @classmethod
    def create(cls, path: Path, facts: dict[str, Any]) -> "RunDirectory":
        """Creates the folder, with a run.json whose status is incomplete; or CaptureError."""
        require_free(path)
        try:
            (path / _SCRATCH).mkdir(parents=True)
        except OSError as error:
            raise CaptureError(
                f"cannot write {path}: {error.strerror}; choose another folder with -o"
            ) from None
        directory = cls(path.resolve())
        write_run_json(directory.path, facts, status="incomplete", reason="still being recorded")
        return directory

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def scratch(self) -> Path:
        return self.path / _SCRATCH

    def finish(self, facts: dict[str, Any], reason: str | None = None) -> None:
        """Marks the run complete, or incomplete for a reason; removes the files of the ranks."""
        status = "complete" if reason is None else "incomplete"
        shutil.rmtree(self.scratch, ignore_errors=True)
        write_run_json(self.path, facts, status=status, reason=reason)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def write_run_json(
    folder: Path, facts: dict[str, Any], *, status: str, reason: str | None = None
) -> None:
    """Replaces run.json; the status is complete, or incomplete for a reason."""
    head = {"schema_version": SCHEMA_VERSION, "status": status, "reason": reason}
    write_json(folder / "run.json", head | facts)


# Each pass, and vLLM, append a suffix after a slash to the id of a request; a server adds a prefix.
_WORKLOAD_ID = re.compile(r"(?:cmpl-)?([^/]+)/")


def rank_folder(scratch: Path, rank: int) -> Path:
    return scratch / f"rank{rank}"


def collected_ranks(scratch: Path) -> list[dict[str, Any]]:
    folders = sorted(scratch.glob("rank*"), key=lambda folder: int(folder.name[4:]))
    return [json.loads((folder / "rank.json").read_text()) for folder in folders]


def write_steps(folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> None:
    """Writes steps.jsonl and scheduler.jsonl from the notes of the ranks on the profiled pass."""
    replicas, scheduled = set(), []  # each replica has one scheduler
    with (folder / "steps.jsonl").open("w") as steps:
        for facts in ranks:
            rank = facts["rank"]
            notes = json.loads(notes_of_steps(scratch, rank).read_text())
            if (replica := facts.get("dp_rank")) not in replicas:
                replicas.add(replica)
                scheduled += _scheduler_lines(rank, notes)
            for number, iteration in enumerate(notes["iterations"]):
                row = {
                    "rank": rank,
                    "number": number,
                    "begin_unix_ns": iteration["begin_unix_ns"],
                    "requests": _by_request(iteration["scheduled"]),
                    "computed": _by_request(iteration["computed"]),
                }
                steps.write(json.dumps(row) + "\n")
    write_scheduler(folder, scheduled)


def _scheduler_lines(rank: int, notes: dict[str, Any]) -> list[dict[str, Any]]:
    """What the scheduler noted in the steps of a rank; none if it was not capture's."""
    accepted, lines = dict(notes["accepted"]), []
    for number, iteration in enumerate(notes["iterations"]):
        if note := iteration["scheduler"]:
            known = {"accepted": accepted.get(note.pop("step"))}
            lines.append({"rank": rank, "number": number, **note, **known})
    return lines


def write_scheduler(folder: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Writes scheduler.jsonl if there are lines to write."""
    if lines:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / SCHEDULER).write_text(text)


def notes_of_steps(scratch: Path, rank: int) -> Path:
    return rank_folder(scratch, rank) / "profiled.json"


def _by_request(tokens: dict[str, int]) -> dict[str, int]:
    """Counts of tokens by the id of the request in the workload."""
    return {
        match[1] if (match := _WORKLOAD_ID.match(name)) else name: count
        for name, count in tokens.items()
    }


@contextmanager
def profile(
    path: str | Path,
    *,
    stacks: bool = False,
    shapes: bool = True,
    memory: bool = False,
    rank: int | None = None,
) -> Iterator[Any]:
    """Records the `with` block on this rank into `path/traces/rank<N>.pt.trace.json.gz`.

    All ranks of a job use the same path; rank 0 writes run.json. Yields the
    torch.profiler.profile, whose `step()` marks the iterations of the program.

    Args:
        rank: the rank of this process. None takes it from torch.distributed, or else from the
            variable RANK, which torchrun sets; without either it is 0.

    Raises:
        FileExistsError: a trace of this rank already exists there.
    """
    import torch

    number, world_size = _rank_and_world_size(rank)
    folder = Path(path)
    trace = folder / "traces" / f"rank{number}.pt.trace.json.gz"
    if trace.exists():
        raise FileExistsError(f"{trace} already exists; choose another run directory")
    trace.parent.mkdir(parents=True, exist_ok=True)
    start_unix_ns = time.time_ns()
    recorder = torch.profiler.profile(
        record_shapes=shapes, profile_memory=memory, with_stack=stacks
    )
    with recorder:
        begin_unix_ns = time.time_ns()
        yield recorder
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        end_unix_ns = time.time_ns()
    with atomic_write(trace) as draft:
        recorder.export_chrome_trace(str(draft))
    if number == 0:
        from capture.environment import start_facts, torch_libraries, variables

        start = datetime.fromtimestamp(start_unix_ns / 1e9, UTC).isoformat(timespec="seconds")
        facts = {"kind": "program", "command": shlex.join(sys.argv), **start_facts()} | {
            "start_unix_ns": start_unix_ns,
            "start": start,
            "parallel": {"world_size": world_size},
            "environment": variables(),
            "window": {"begin_unix_ns": begin_unix_ns, "end_unix_ns": end_unix_ns},
            "profiler": {"stacks": stacks, "shapes": shapes, "memory": memory},
        }
        facts["versions"] |= torch_libraries()
        write_run_json(folder, facts, status="complete")


def _rank_and_world_size(rank: int | None) -> tuple[int, int]:
    import torch

    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    size, found = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    if distributed:
        size, found = torch.distributed.get_world_size(), torch.distributed.get_rank()
    return (found, size) if rank is None else (rank, max(size, rank + 1))
