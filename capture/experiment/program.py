"""Runs a program that measures a point, with its output in a log and the GPUs watched."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capture.errors import PointFailed
from capture.failures import explained_by_log
from capture.processes import end_process_tree
from capture.telemetry import sampled

LOG = "log.txt"
_POLL_S = 0.1


@dataclass(frozen=True)
class Program:
    """A command, and what ends it early.

    Attributes:
        variables: all of its environment variables.
        check: called while it runs; raises PointFailed if it can no longer succeed.
    """

    command: Sequence[str]
    variables: Mapping[str, str]
    timeout_s: float
    check: Callable[[], None] = lambda: None


def run_program(program: Program, folder: Path, warn: Callable[[str], None]) -> None:
    """Runs it until it ends.

    Raises:
        PointFailed: it failed, or took too long.
    """
    log = folder / LOG
    with log.open("ab") as output, sampled(folder / "telemetry.parquet", warn):
        process = subprocess.Popen(
            program.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(program.variables),
            text=True,
            start_new_session=True,
        )
        try:
            _wait(process, program)
        except BaseException:
            end_process_tree(process)
            raise
    if process.returncode:
        program.check()
        raise PointFailed(
            explained_by_log(f"vllm bench ended with status {process.returncode}", log)
        )


def _wait(process: "subprocess.Popen[str]", program: Program) -> None:
    deadline = time.monotonic() + program.timeout_s
    while process.poll() is None:
        program.check()
        if time.monotonic() > deadline:
            raise PointFailed(
                f"it took longer than {program.timeout_s:g} s; raise point_timeout_s, or lower the "
                "number of requests"
            )
        time.sleep(_POLL_S)
