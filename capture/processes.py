"""Ends the processes that a run started and removes the shared memory they leave behind."""

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

_SHARED_MEMORY = Path("/dev/shm")
_NAME_PREFIXES = ("psm_", "vllm", "sem.mp-", "sem.loky-", "nccl-", "torch_", "cuda.shm.")
GRACE_S = 15
_LOOK_S = 1
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, linux/prctl.h
_SET_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


def adopt_orphans() -> None:
    """Makes this process adopt its descendants when their own parent dies (Linux)."""
    _prctl(_SET_SUBREAPER, 1)


def end_with_parent() -> None:
    """Sends this process SIGTERM when its parent dies, even if the parent is killed (Linux)."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def end_group_with_parent(*, grace_s: float = GRACE_S) -> None:
    """Also kills the group that this process leads, if the parent's death does not end it.

    vLLM does not hear SIGTERM while it waits for its engine to start.

    Args:
        grace_s: how long after the parent's death.
    """
    end_with_parent()
    if os.getpgrp() == os.getpid():
        watch = threading.Thread(target=_outlive, args=(os.getppid(), grace_s), daemon=True)
        watch.start()


def _outlive(parent: int, grace_s: float) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    time.sleep(grace_s)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_process_tree(process: subprocess.Popen[str], *, grace_s: float = 0) -> None:
    """Ends a process and everything that it started: SIGTERM first, then SIGKILL.

    Args:
        grace_s: how long to wait for the process to end by itself before SIGTERM.
    """
    import psutil

    alive = [process.pid, *_descendants(process.pid)]
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    # Descendants of dead processes have become our children, see adopt_orphans.
    left = {*alive, *_descendants(process.pid), *_session(process.pid)}
    killed = list(filter(None, map(_killed, left)))
    process.wait()
    psutil.wait_procs(killed, timeout=1)
    _reap()


def _killed(pid: int) -> Any:
    """The process, which is killed; None if there is none."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.kill()
        return process
    return None


def _descendants(pid: int) -> list[int]:
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _session(leader: int) -> list[int]:
    """Processes of the session that `leader` started, even if the leader itself has ended."""
    import psutil

    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if pid != os.getpid() and os.getsid(pid) == leader:
                found.append(pid)
    return found


def _reap() -> None:
    """Forgets children that had ended before."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def shared_memory() -> frozenset[str]:
    """Names of shared memory that vLLM, PyTorch or multiprocessing may have created."""
    if not _SHARED_MEMORY.is_dir():
        return frozenset()
    return frozenset(f.name for f in _SHARED_MEMORY.iterdir() if f.name.startswith(_NAME_PREFIXES))


def remove_shared_memory(before: frozenset[str]) -> None:
    """Removes shared memory created since `before` that no living process has mapped or open."""
    new = {name: inode for name in shared_memory() - before if (inode := _inode(name))}
    used = _inodes_in_use()
    for name, inode in new.items():
        if inode not in used:
            with suppress(OSError):
                (_SHARED_MEMORY / name).unlink()


def _inode(name: str) -> int | None:
    try:
        return (_SHARED_MEMORY / name).stat().st_ino
    except OSError:
        return None


def _inodes_in_use() -> set[int]:
    """Inodes of all shared memory in use.

    Inodes, not names: a process maps a semaphore under a temporary name, which is then renamed.
    """
    import psutil

    used: set[int] = set()
    for pid in psutil.pids():
        with suppress(OSError):
            maps = Path(f"/proc/{pid}/maps").read_text()
            used |= {int(line.split()[4]) for line in maps.splitlines() if "/dev/shm/" in line}
        with suppress(OSError):
            used |= {_shared_memory_inode(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    return used


def _shared_memory_inode(file: Path) -> int:
    """The inode of an open file in shared memory, or 0 for any other open file."""
    with suppress(OSError):
        if str(file.readlink()).startswith(f"{_SHARED_MEMORY}/"):
            return file.stat().st_ino
    return 0


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Handles SIGTERM (from a batch system) and SIGHUP (from a lost terminal) like Ctrl-C."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
