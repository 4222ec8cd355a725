"""A vLLM server for an experiment: started, waited for, and ended with all that it started."""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.errors import PointFailed
from capture.experiment.arguments import VLLM
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
_POLL_S = 0.25
_ANSWER_S = 10


@dataclass(frozen=True)
class RunningServer:
    """A server that answers.

    Attributes:
        start_s: how long it took until it answered.
        folder: has its log and its command.
    """

    url: str
    process: "subprocess.Popen[str]"
    folder: Path
    command: Sequence[str]
    start_s: float

    def facts(self, results: Path) -> dict[str, Any]:
        """What it was, for the files of a repeat."""
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
        """Empties the prefix cache, so that no point profits from the one before."""
        self._post("/reset_prefix_cache")

    def _post(self, path: str) -> None:
        request = urllib.request.Request(self.url + path, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S):
                pass
        except (OSError, ValueError) as error:
            self.require_alive()
            raise PointFailed(f"{path} of the server failed: {error}") from None


@contextmanager
def served(
    arguments: Sequence[str],
    *,
    folder: Path,
    port: int | None,
    variables: Mapping[str, str],
    timeout_s: float,
    wrapper: Sequence[str] = (),
) -> Iterator[RunningServer]:
    """Starts a server, and ends it and everything that it started after the block.

    Args:
        arguments: of `vllm serve`, without the port.
        folder: for its log and its command.
        port: None takes a free one.
        variables: all environment variables of the server.
        wrapper: a profiler's command line to start it with.

    Raises:
        PointFailed: it did not come up; the message says why and where the log is.
    """
    port = _free_port(port)
    command = [*wrapper, *VLLM, "serve", *arguments, "--host", _HOST, "--port", str(port)]
    write_json(folder / "server.json", {"command": command, "environment": _named(variables)})
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
    """Waits until the server answers."""
    while time.monotonic() < deadline:
        server.require_alive()
        with (
            suppress(OSError, ValueError),
            urllib.request.urlopen(f"{server.url}/health", timeout=_ANSWER_S) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(_POLL_S)
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


def _named(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that differ from those of this process."""
    return {name: value for name, value in variables.items() if os.environ.get(name) != value}
