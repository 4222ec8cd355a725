"""The process that forks.py starts: it runs each command that it is sent in a fork of itself.

A fork has what the process has imported, and is a process of its own in all else. It may start an
engine, because the import of vLLM does not begin to use CUDA.
"""

import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from capture.processes import end_group_with_parent

FORKED = "forked"  # in place of a command's arguments


def run_in_forks(load: Callable[[], Callable[[], None]]) -> None:
    """Answers each command with its exit status, on the socket that is its standard input.

    Args:
        load: does all imports; returns what runs a command, whose arguments are in sys.argv.
    """
    run = load()
    gc.freeze()  # no fork looks through what it has in common with the others
    for line in sys.stdin:
        sys.stdout.flush()
        fork = os.fork()
        if not fork:
            _begin(**json.loads(line))
            return run()
        status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        os.write(sys.stdin.fileno(), f"{status}\n".encode())


def _begin(arguments: Sequence[str], log: str) -> None:
    """Makes this process what it would be if it had been started with these arguments."""
    os.setpgrp()  # in the session of the process that forks, which is ended as a whole
    end_group_with_parent()
    with Path(os.devnull).open("rb") as nothing, Path(log).open("ab") as output:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
        for stream in (sys.stdout, sys.stderr):
            os.dup2(output.fileno(), stream.fileno())
    sys.argv[1:] = arguments
