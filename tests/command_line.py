"""The command line, in this process or, where that matters, in one of its own."""

import io
import os
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from traceql.cli import main

PROGRAM = "import sys; sys.argv[0] = 'traceql'; from traceql.cli import main; main()"
_ENVIRONMENT = {"COLUMNS": "160"}
_SAID_IF_SLOW = re.compile(rb"making tables of .* on their first use.*\n")


def process(*arguments: str | Path, **environment: str) -> CompletedProcess[bytes]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        capture_output=True, check=False, env=os.environ | _ENVIRONMENT | environment,
    )  # fmt: skip
    done.stderr = _SAID_IF_SLOW.sub(b"", done.stderr)
    return done


def called(*arguments: str | Path, **environment: str) -> CompletedProcess[bytes]:
    """What `process` gives, without starting one."""
    command = ["traceql", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    stops = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", command)
        patch.setattr(sys.modules["__main__"], "__package__", None)  # else it names pytest's
        for name, value in (_ENVIRONMENT | environment).items():
            patch.setenv(name, value)
        try:
            status = main()
        except SystemExit as end:
            status = end.code
        finally:
            for number, stop in stops.items():
                signal.signal(number, stop)
    shown = [stream.detach().getvalue() for stream in (out, err)]
    return CompletedProcess(command, status or 0, shown[0], _SAID_IF_SLOW.sub(b"", shown[1]))


def output(*arguments: str | Path, **environment: str) -> str:
    done = called(*arguments, **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def refusal(*arguments: str | Path, status: int = 1) -> str:
    """The last line on stderr of a command that fails and writes nothing to stdout."""
    done = called(*arguments)
    assert (done.returncode, done.stdout) == (status, b"")
    lines = done.stderr.decode().splitlines()
    assert status == 2 or len(lines) == 1, lines
    return lines[-1]
