"""Ends what a run started: its processes, and the shared memory that killed ones leave."""

import ctypes
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

_SHARED_MEMORY = Path("/dev/shm")
_LITTER = ("psm_", "vllm", "sem.mp-", "sem.loky-", "nccl-", "torch_", "cuda.shm.")
GRACE_S = 15
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, linux/prctl.h
_SET_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent has died (Linux)."""
    _prctl(_SET_SUBREAPER, 1)


def end_with_parent() -> None:
    """Has this process asked to end when its parent dies, however that happens (Linux)."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end(process: subprocess.Popen[str], *, grace_s: float = 0) -> None:
    """Ends a process and all that it started: asks first, kills what remains.

    Args:
        grace_s: how long it may take to end by itself before it is asked.
    """
    alive = [process.pid, *_descendants(process.pid)]
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    # Descendants of the dead are ours now, see adopt_orphans.
    for pid in {*alive, *_descendants(process.pid), *_session(process.pid)}:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
    process.wait()
    _reap()


def _descendants(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _session(leader: int) -> list[int]:
    """Processes of the session that `leader` began, also where it has ended."""
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if pid != os.getpid() and os.getsid(pid) == leader:
                found.append(pid)
    return found


def _reap() -> None:
    deadline = time.monotonic() + 1
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)


def shared_memory() -> frozenset[str]:
    """Names in shared memory that vLLM, PyTorch or multiprocessing may have made."""
    if not _SHARED_MEMORY.is_dir():
        return frozenset()
    return frozenset(f.name for f in _SHARED_MEMORY.iterdir() if f.name.startswith(_LITTER))


def remove_shared_memory(before: frozenset[str]) -> None:
    """Removes what came since `before` and no living process has mapped or open."""
    new = {name: inode for name in shared_memory() - before if (inode := _inode(name))}
    used = _in_use()
    for name, inode in new.items():
        if inode not in used:
            with suppress(OSError):
                (_SHARED_MEMORY / name).unlink()


def _inode(name: str) -> int | None:
    try:
        return (_SHARED_MEMORY / name).stat().st_ino
    except OSError:
        return None


def _in_use() -> set[int]:
    """By inode: a process has a semaphore mapped under another name than the one it is found by."""
    used: set[int] = set()
    for pid in psutil.pids():
        with suppress(OSError):
            maps = Path(f"/proc/{pid}/maps").read_text()
            used |= {int(line.split()[4]) for line in maps.splitlines() if "/dev/shm/" in line}
        with suppress(OSError):
            used |= {_inode_of(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    return used


def _inode_of(file: Path) -> int:
    """Of what an open file is in shared memory; 0 of any other."""
    with suppress(OSError):
        if str(file.readlink()).startswith(f"{_SHARED_MEMORY}/"):
            return file.stat().st_ino
    return 0
