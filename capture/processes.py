"""Ends the processes of a run and removes the shared memory that they leave behind."""

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
    """Also kills the process group of this leader `grace_s` after the parent's death.

    vLLM ignores SIGTERM while it waits for its engine to start.
    """
    end_with_parent()
    parent = os.getppid()

    def kill_group() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        time.sleep(grace_s)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    if os.getpgrp() == os.getpid():
        threading.Thread(target=kill_group, daemon=True).start()


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_process_tree(process: subprocess.Popen[str], *, grace_s: float = 0) -> None:
    """Ends a process and its descendants: waits `grace_s`, then sends SIGTERM, then SIGKILL."""
    import psutil

    def descendants() -> list[int]:
        with suppress(psutil.NoSuchProcess):
            return [one.pid for one in psutil.Process(process.pid).children(recursive=True)]
        return []

    alive = [process.pid, *descendants()]
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    # Descendants of dead processes have become our children, see adopt_orphans.
    left = {*alive, *descendants(), *_session(process.pid)}
    killed = []
    for pid in left:
        with suppress(psutil.NoSuchProcess):
            killed.append(psutil.Process(pid))
            killed[-1].kill()
    process.wait()
    psutil.wait_procs(killed, timeout=1)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:  # children that had ended before
            pass


def _session(leader: int) -> list[int]:
    """Processes of the session that `leader` started, even if the leader itself has ended."""
    import psutil

    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if pid != os.getpid() and os.getsid(pid) == leader:
                found.append(pid)
    return found


def shared_memory() -> frozenset[str]:
    """Names of shared memory that vLLM, PyTorch or multiprocessing may have created."""
    if not _SHARED_MEMORY.is_dir():
        return frozenset()
    return frozenset(f.name for f in _SHARED_MEMORY.iterdir() if f.name.startswith(_NAME_PREFIXES))


def remove_shared_memory(before: frozenset[str]) -> None:
    """Removes shared memory created since `before` that no living process has mapped or open."""
    new: dict[Path, int] = {}
    for name in shared_memory() - before:
        with suppress(OSError):
            new[_SHARED_MEMORY / name] = (_SHARED_MEMORY / name).stat().st_ino
    used = _inodes_in_use()
    for file, inode in new.items():
        if inode not in used:
            with suppress(OSError):
                file.unlink()


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
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    if str(file.readlink()).startswith(f"{_SHARED_MEMORY}/"):
                        used.add(file.stat().st_ino)
    return used


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
