"""The process of a server on this machine: its command line and the folder of its traces."""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import psutil

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})
_OPTION = "--profiler-config"
_FOLDER = "torch_profiler_dir"


def server_process(url: str) -> tuple[list[str], Path] | None:
    """Command line and working folder of the process that listens on a local URL.

    None if the server is on another host, or its process belongs to another user.
    """
    import psutil

    parts = urlsplit(url)
    if parts.hostname not in _LOCAL:
        return None
    port = parts.port or 80
    with suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if _listens(connection, port) and connection.pid:
                process = _first_with(psutil.Process(connection.pid), port)
                return list(process.cmdline()), Path(process.cwd())
    return None


def _first_with(process: "psutil.Process", port: int) -> "psutil.Process":
    """The first of a process and its parents that listens: forks of a server inherit its socket."""
    for parent in process.parents():
        if not any(_listens(one, port) for one in parent.net_connections("tcp")):
            break
        process = parent
    return process


def _listens(connection: Any, port: int) -> bool:
    return bool(connection.status == "LISTEN" and connection.laddr.port == port)


def trace_folder(command: list[str]) -> Path | None:
    """The folder in `--profiler-config`, in any of the forms that vLLM accepts."""
    for number, argument in enumerate(command):
        name, equals, value = argument.partition("=")
        value = value if equals else (command[number + 1] if number + 1 < len(command) else "")
        if name.replace("_", "-") == f"{_OPTION}.{_FOLDER}".replace("_", "-"):
            return Path(value)
        if name.replace("_", "-") == _OPTION:
            with suppress(ValueError, TypeError, KeyError):
                return Path(json.loads(value)[_FOLDER])
    return None
