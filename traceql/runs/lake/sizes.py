"""What loading a run takes, by the size of its files."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from traceql.errors import TraceqlError
from traceql.readers.ways import unpacked_bytes
from traceql.util.memory import memory_bytes

# Memory for each byte of a trace. Large traces are read section by section, so that it is limited.
_MEMORY_OF_BYTE = 3
_LEAST_MEMORY, _MOST_MEMORY = 1 << 30, 4 << 30
# Ten times what loading took on one of two shared cores (docs/scale.md), and time for a slow start.
_SECONDS_OF_BYTE = 5e-7
_LEAST_SECONDS = 600.0


def bytes_at(path: Path) -> int:
    """Bytes of the files at a path, unpacked, about.

    Raises:
        TraceqlError: there is no such path.
        OSError: the path cannot be read.
    """
    if not path.exists():
        raise TraceqlError(f"{path}: no such file or folder")
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(map(unpacked_bytes, files))


def memory_of(size_bytes: int) -> int:
    """Memory to load files of this size with, bytes."""
    return min(_MOST_MEMORY, max(_LEAST_MEMORY, _MEMORY_OF_BYTE * size_bytes))


def timeout_of(size_bytes: int) -> float:
    """How long loading files of this size may take, s."""
    return _LEAST_SECONDS + _SECONDS_OF_BYTE * size_bytes


def at_once_here(sizes: Sequence[int]) -> int:
    """How many runs to load at once here: one per processor, if they fit into memory together."""
    fit = _free_bytes() // max(map(memory_of, sizes))
    return max(1, min(len(sizes), os.cpu_count() or 1, fit))


def _free_bytes() -> int:
    """Memory of this machine, or container, that no program uses."""
    usable = memory_bytes(None) * 2
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(usable, int(line.split()[1]) * 1024)
    return usable // 2
