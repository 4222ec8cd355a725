"""Runs a command that measures a point, with its output in a log and the GPUs watched."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from capture.errors import PointFailed
from capture.experiment.forks import Fork, Forks
from capture.failures import explained_by_log
from capture.telemetry import sampled

LOG = "log.txt"
_POLL_S = 0.1


@dataclass(frozen=True)
class Program:
    """A command of vLLM, and what ends it early.

    Attributes:
        check: called while it runs; raises PointFailed if it can no longer succeed.
    """

    arguments: Sequence[str]
    timeout_s: float
    check: Callable[[], None] = lambda: None


def run_program(program: Program, forks: Forks, folder: Path, warn: Callable[[str], None]) -> None:
    """Runs it until it ends.

    Raises:
        PointFailed: it failed, or took too long.
    """
    log = folder / LOG
    with sampled(folder / "telemetry.parquet", warn):
        try:
            status = _status(forks.start(program.arguments, log), program)
        except BaseException:
            forks.end()
            raise
    if status:
        program.check()
        raise PointFailed(explained_by_log(f"vllm bench ended with status {status}", log))


def _status(fork: Fork, program: Program) -> int:
    deadline = time.monotonic() + program.timeout_s
    while (status := fork.status(_POLL_S)) is None:
        program.check()
        if time.monotonic() > deadline:
            raise PointFailed(
                f"it took longer than {program.timeout_s:g} s; raise point_timeout_s, or lower the "
                "number of requests"
            )
    return status
