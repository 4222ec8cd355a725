"""Loads a file with traceql in a process of its own, and measures time, memory and disk."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

_POLL_S = 0.05


class Measured(NamedTuple):
    """What a load took: most memory of all processes, and most disk, at one time."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    disk_bytes: int


def load(path: Path, scratch: Path, *options: str) -> Measured:
    """Loads a file or a folder into a database x.duckdb in the folder `scratch`."""
    database = scratch / "x.duckdb"
    database.unlink(missing_ok=True)
    before, begin, peak, disk = _used(scratch), time.perf_counter(), 0, 0
    process = psutil.Popen(
        [sys.executable, "-m", "traceql", "load", path, "-o", database, *options],
        stdout=subprocess.DEVNULL,
    )
    cpu = 0.0
    while process.poll() is None:
        peak = max(peak, _memory(process))
        disk = max(disk, _used(scratch))
        cpu = max(cpu, _cpu(process))
        time.sleep(_POLL_S)
    if process.returncode:
        raise SystemExit(f"{path} was not loaded")
    return Measured(time.perf_counter() - begin, cpu, peak, disk - before)


def _memory(process: psutil.Process) -> int:
    """Memory that a process and those it started have for themselves, bytes."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss - one.memory_info().shared
    return total


def _cpu(process: psutil.Process) -> float:
    """CPU time of a process, of those it started and of those that have ended, s."""
    try:
        own = process.cpu_times()
        running = [one.cpu_times() for one in process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    ended = own.children_user + own.children_system
    return float(ended + sum(one.user + one.system for one in (own, *running)))


def _used(folder: Path) -> int:
    """Bytes of the files in a folder, without those that go while they are looked at."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += (Path(parent) / name).stat().st_blocks * 512
    return total
