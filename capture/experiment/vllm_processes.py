"""Processes of vLLM: a server, and benchmarks in forks of one process that has imported vLLM."""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

from capture.errors import PointFailed
from capture.experiment.vllm_arguments import VLLM
from capture.experiment.vllm_command import FORKED
from capture.gpus import sampled
from capture.processes import (
    GRACE_S,
    adopt_orphans,
    end_process_tree,
    remove_shared_memory,
    shared_memory,
)
from capture.run_directory import write_json
from capture.supervise import explained_by_log

LOG = "log.txt"
_HOST = "127.0.0.1"
_REPLY_BYTES = 16
_POLL_S = 0.1
_SERVER_POLL_S = 0.25
_SERVER_REPLY_S = 10


@dataclass(frozen=True)
class _Process:
    """A running fork server.

    Attributes:
        channel: the socket for commands and their exit statuses.
        output: what the fork server itself printed; forks print to their own logs.
    """

    popen: "subprocess.Popen[str]"
    channel: socket.socket
    output: IO[bytes]

    def status(self, log: Path, wait_s: float) -> int | None:
        """Exit status of the command, or of this process if it has ended; None if still running."""
        self.channel.settimeout(wait_s)
        with suppress(ConnectionError):
            try:
                if reply := self.channel.recv(_REPLY_BYTES):
                    return int(reply)
            except TimeoutError:
                return None
        status = self.popen.wait()
        self.output.seek(0)
        with log.open("ab") as file:
            file.write(self.output.read())
        return status


class ForkServer:
    """Runs commands one after another in forks of one process; `with` ends the process.

    If it has ended, the next command starts another one.
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

    def begin(self) -> _Process:
        """Starts the process, which imports vLLM in the background; returns a running one."""
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

    def run(self, program: "Program", log: Path) -> int:
        """Runs a command until it ends; returns its exit status.

        Raises:
            PointFailed: it took too long, or its check failed.
        """
        process = self.begin()
        command = {"arguments": program.arguments, "log": str(log)}
        with suppress(ConnectionError):  # the process has ended; `status` returns its exit status
            process.channel.sendall(json.dumps(command).encode() + b"\n")
        deadline = time.monotonic() + program.timeout_s
        while (status := process.status(log, _POLL_S)) is None:
            program.check()
            if time.monotonic() > deadline:
                raise PointFailed(
                    f"it took longer than {program.timeout_s:g} s; raise point_timeout_s, or lower "
                    "the number of requests"
                )
        return status

    def end(self) -> None:
        """Ends the process and its forks."""
        if self._process:
            end_process_tree(self._process.popen)
            self._process.channel.close()
            self._process.output.close()
            self._process = None


@dataclass(frozen=True)
class Program:
    """A command of vLLM, and what ends it early.

    Attributes:
        check: called while it runs; raises PointFailed if it can no longer succeed.
    """

    arguments: Sequence[str]
    timeout_s: float
    check: Callable[[], None] = lambda: None


def run_program(
    program: Program, fork_server: ForkServer, folder: Path, warn: Callable[[str], None]
) -> None:
    """Runs a command, with its log and samples of the GPUs in a folder.

    Raises:
        PointFailed: it failed, or took too long.
    """
    log = folder / LOG
    with sampled(folder / "telemetry.parquet", warn):
        try:
            status = fork_server.run(program, log)
        except BaseException:
            fork_server.end()
            raise
    if status:
        program.check()
        raise PointFailed(explained_by_log(f"vllm bench ended with status {status}", log))


@dataclass(frozen=True)
class RunningServer:
    """A server that has started.

    Attributes:
        start_s: the time until its first reply.
        folder: has its log and its command.
    """

    url: str
    process: "subprocess.Popen[str]"
    folder: Path
    command: Sequence[str]
    start_s: float

    def facts(self, results: Path) -> dict[str, Any]:
        """Its description for the files of a repeat."""
        return {
            "folder": str(self.folder.relative_to(results)),
            "command": list(self.command),
            "start_s": self.start_s,
        }

    def require_alive(self) -> None:
        """Raises PointFailed if the server has ended."""
        if (status := self.process.poll()) is not None:
            raise PointFailed(explained_by_log(f"the server ended with status {status}", self.log))

    @property
    def log(self) -> Path:
        return self.folder / LOG

    def reset_caches(self) -> None:
        """Empties the prefix cache, so that each point starts with an empty one."""
        path = "/reset_prefix_cache"
        request = urllib.request.Request(self.url + path, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=_SERVER_REPLY_S):
                pass
        except (OSError, ValueError) as error:
            self.require_alive()
            raise PointFailed(f"{path} of the server failed: {error}") from None


@contextmanager
def running_server(
    arguments: Sequence[str],
    *,
    folder: Path,
    port: int | None,
    variables: Mapping[str, str],
    timeout_s: float,
    launcher: Sequence[str] = (),
) -> Iterator[RunningServer]:
    """Starts a server for the `with` block; ends it and all its child processes afterwards.

    Args:
        arguments: of `vllm serve`, without the port.
        folder: for its log and its command.
        port: None takes a free one.
        variables: all environment variables of the server.
        launcher: the command line of a profiler that starts the server.

    Raises:
        PointFailed: it did not start; the message says why and where the log is.
    """
    port = _free_port(port)
    command = [*launcher, *VLLM, "serve", *arguments, "--host", _HOST, "--port", str(port)]
    changed = {name: v for name, v in variables.items() if os.environ.get(name) != v}
    write_json(folder / "server.json", {"command": command, "environment": changed})
    before = shared_memory()
    adopt_orphans()
    begin = time.monotonic()
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(variables),
            text=True,
            start_new_session=True,
        )
    url = f"http://{_HOST}:{port}"
    try:
        server = RunningServer(url, process, folder, command, 0)
        _wait(server, begin + timeout_s, timeout_s)
        yield RunningServer(url, process, folder, command, time.monotonic() - begin)
    finally:
        process.terminate()
        end_process_tree(process, grace_s=GRACE_S)
        remove_shared_memory(before)


def _wait(server: RunningServer, deadline: float, timeout_s: float) -> None:
    """Waits until the server replies."""
    while time.monotonic() < deadline:
        server.require_alive()
        with (
            suppress(OSError, ValueError),
            urllib.request.urlopen(f"{server.url}/health", timeout=_SERVER_REPLY_S) as reply,
        ):
            if reply.status == 200:
                return
        time.sleep(_SERVER_POLL_S)
    raise PointFailed(
        f"the server did not answer within {timeout_s:g} s; raise start_timeout_s, or see its log "
        f"(log: {server.log})"
    )


def _free_port(wanted: int | None) -> int:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, wanted or 0))
        except OSError as error:
            raise PointFailed(
                f"port {wanted} is in use ({error.strerror}); end the program that uses it, or "
                "leave port out of the plan"
            ) from None
        number: int = listener.getsockname()[1]
        return number
