"""Records any PyTorch program with torch.profiler into a run directory."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capture.run_directory import atomic_write, write_run_json


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
        facts = _program_facts(start_unix_ns, world_size) | {
            "window": {"begin_unix_ns": begin_unix_ns, "end_unix_ns": end_unix_ns},
            "profiler": {"stacks": stacks, "shapes": shapes, "memory": memory},
        }
        write_run_json(folder, facts, status="complete")


def _rank_and_world_size(rank: int | None) -> tuple[int, int]:
    """The rank of this process and the number of all ranks."""
    import torch

    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    size = (
        torch.distributed.get_world_size() if distributed else int(os.environ.get("WORLD_SIZE", 1))
    )
    if rank is not None:
        return rank, max(size, rank + 1)
    return (torch.distributed.get_rank() if distributed else int(os.environ.get("RANK", 0))), size


def _program_facts(start_unix_ns: int, world_size: int) -> dict[str, Any]:
    from capture.environment import checkout, environment, torch_libraries, variables, versions

    return {
        "kind": "program",
        "command": shlex.join(sys.argv),
        "start_unix_ns": start_unix_ns,
        "start": datetime.fromtimestamp(start_unix_ns / 1e9, UTC).isoformat(timespec="seconds"),
        "parallel": {"world_size": world_size},
        "environment": variables(),
        "git": checkout(),
        **environment(),
        "versions": versions() | torch_libraries(),
    }
