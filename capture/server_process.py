"""The process of a server on this machine: its command line and the folder of its traces."""

import json
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})
_OPTION = "--profiler-config"
_FOLDER = "torch_profiler_dir"


def server_process(url: str) -> tuple[list[str], Path] | None:
    """Command line and working folder of the process that listens on a local URL.

    Of several, the oldest: forks of a server inherit its socket.

    None if the server is on another host, or its process belongs to another user.
    """
    import psutil

    parts = urlsplit(url)
    if parts.hostname not in _LOCAL:
        return None
    port = parts.port or 80
    with suppress(psutil.Error):
        listening = [
            psutil.Process(connection.pid)
            for connection in psutil.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
            and connection.laddr.port == port
            and connection.pid
        ]
        if listening:
            process = min(listening, key=lambda one: one.create_time())
            return list(process.cmdline()), Path(process.cwd())
    return None


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
