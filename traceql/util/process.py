"""Memory limits of a load, and settings of child processes."""

import os
import re
import sys
import warnings
from contextlib import suppress
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread
from types import ModuleType

from traceql.errors import TraceqlError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
          "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}  # fmt: skip
_SHARE_OF_DUCKDB = 0.6  # the rest is for Python and Arrow
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)
_BYTES_OF_EVENT = 400  # to derive tables; its JSON has more
LEAST_BYTES = 256 << 20
# Limits of a container, for both versions of control groups.
_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes(given: int | str | None) -> int:
    """A number of bytes, or a size such as "4GB", at most the machine's memory; None: half of it.

    Raises:
        TraceqlError: it is not a size, or less than 256 MiB.
    """
    if given is None:
        return max(LEAST_BYTES, machine_bytes() // 2)
    if isinstance(given, int):
        size = given
    elif found := _SIZE.fullmatch(given):
        size = int(float(found[1]) * _UNITS[(found[2] or "").lower()])
    else:
        raise TraceqlError(f"'{given}' is not a size of memory; write it like 4GB or 512MiB")
    if size < LEAST_BYTES:
        raise TraceqlError(f"a memory of {given} is too little; give 256MiB or more")
    return min(size, max(LEAST_BYTES, machine_bytes()))


def writer_settings(
    draft: Path, budget_bytes: int
) -> dict[str, str | bool | int | float | list[str]]:
    """DuckDB's settings for writing a draft: what exceeds the memory is sorted on disk beside it.

    Args:
        budget_bytes: the memory of the whole command.
    """
    return {
        "memory_limit": f"{int(budget_bytes * _SHARE_OF_DUCKDB)}B",
        "temp_directory": str(draft.with_name("sorting")),
    }


def deriving_bytes(budget_bytes: int, events: int) -> int:
    """DuckDB's memory for deriving the tables of a number of events.

    More memory is a few percent faster, but a load should use at most 1.5 times the size of its
    JSON.

    Args:
        budget_bytes: the memory of the whole command.
    """
    wanted = max(LEAST_BYTES, events * _BYTES_OF_EVENT)
    return min(int(budget_bytes * _SHARE_OF_DUCKDB), wanted)


def machine_bytes() -> int:
    """The memory of the machine, or of the container that limits it."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _GROUP_LIMITS:
        with suppress(OSError, ValueError):  # no such file, or "max"
            limits.append(int(Path(path).read_text()))
    return min(limits)


def end_with_parent() -> None:
    """Ends this process when its parent ends, even if the parent is killed."""
    parent = parent_process()
    assert parent is not None

    def wait_and_end() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait_and_end, daemon=True).start()


def hide_pandas() -> None:
    """Keeps pyarrow from importing pandas in this process, unless it is imported already.

    pyarrow imports pandas when it first converts a list, and again for a data frame.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    too_old = ModuleType("pandas")
    too_old.__dict__["__version__"] = "0"
    sys.modules["pandas"] = too_old
    warnings.filterwarnings("ignore", "pyarrow requires pandas")
    try:
        pa.array([0])
    finally:
        del sys.modules["pandas"]
