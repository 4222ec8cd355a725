"""Runs benchmarks in forks of one process that has imported vLLM; samples the GPUs."""

import json
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Self

from capture.errors import PointFailed
from capture.experiment.forked import FORKED
from capture.gpus import sampled
from capture.processes import end_process_tree
from capture.supervise import explained_by_log

_ANSWER_BYTES = 16


@dataclass(frozen=True)
class _Process:
    """The process that forks.

    Attributes:
        channel: takes commands, gives their exit statuses.
        output: what it said itself, which is not the output of its forks.
    """

    popen: "subprocess.Popen[str]"
    channel: socket.socket
    output: IO[bytes]


@dataclass(frozen=True)
class Fork:
    """A command that runs, with its output in a log."""

    process: _Process
    log: Path

    def status(self, wait_s: float) -> int | None:
        """Its exit status, or that of the process if it has ended; None if it still runs then."""
        self.process.channel.settimeout(wait_s)
        with suppress(ConnectionError):
            try:
                if answer := self.process.channel.recv(_ANSWER_BYTES):
                    return int(answer)
            except TimeoutError:
                return None
        status = self.process.popen.wait()
        self.process.output.seek(0)
        with self.log.open("ab") as log:
            log.write(self.process.output.read())
        return status


class Forks:
    """One process for many commands, one after another; it ends with the block, or by `end`.

    When it has ended, the next command starts another one.
    """

    def __init__(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Takes the command without arguments, and all environment variables."""
        self._command = [*command, FORKED]
        self._variables = variables
        self._process: _Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Starts the process, which imports while others work."""
        self._running()

    def start(self, arguments: Sequence[str], log: Path) -> Fork:
        process = self._running()
        command = {"arguments": arguments, "log": str(log)}
        with suppress(ConnectionError):  # it has just ended, as the status will say
            process.channel.sendall(json.dumps(command).encode() + b"\n")
        return Fork(process, log)

    def end(self) -> None:
        """Ends the process and what it has started."""
        if self._process:
            end_process_tree(self._process.popen)
            self._process.channel.close()
            self._process.output.close()
            self._process = None

    def _running(self) -> _Process:
        if self._process and self._process.popen.poll() is None:
            return self._process
        self.end()
        ours, theirs = socket.socketpair()
        output = TemporaryFile()  # noqa: SIM115 - `end` closes it
        with theirs:
            popen = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self._variables),
                text=True,
                start_new_session=True,
            )
        self._process = _Process(popen, ours, output)
        return self._process


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
