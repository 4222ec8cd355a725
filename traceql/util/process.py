"""How much memory a load may use, and what child processes do."""

import os
import re
import sys
import warnings
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
LEAST_BYTES = 256 << 20  # with less, nothing of use fits
# Limits of a container, for both versions of control groups.
_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes(given: int | str | None) -> int:
    """A number of bytes, or a size such as "4GB"; half of the machine's memory for None.

    It is never more than the machine has.

    Raises:
        TraceqlError: it is no size, or less than 256 MiB.
    """
    if given is None:
        return max(LEAST_BYTES, machine_bytes() // 2)
    size = given if isinstance(given, int) else _parsed(given)
    if size < LEAST_BYTES:
        raise TraceqlError(f"a memory of {given} is too little; give 256MiB or more")
    return min(size, max(LEAST_BYTES, machine_bytes()))


def writing_limits(
    draft: Path, budget_bytes: int
) -> dict[str, str | bool | int | float | list[str]]:
    """DuckDB's settings for a file that it fills: it writes beside it what needs more memory.

    Args:
        budget_bytes: what the whole command may use.
    """
    return {
        "memory_limit": f"{int(budget_bytes * _SHARE_OF_DUCKDB)}B",
        "temp_directory": str(draft.with_name("sorting")),
    }


def deriving_bytes(budget_bytes: int, events: int) -> int:
    """How much memory DuckDB may use to derive the tables of so many events.

    More would be faster by a few percent, but a load should take no more memory than 1.5 times its
    JSON.

    Args:
        budget_bytes: what the whole command may use.
    """
    wanted = max(LEAST_BYTES, events * _BYTES_OF_EVENT)
    return min(int(budget_bytes * _SHARE_OF_DUCKDB), wanted)


def _parsed(text: str) -> int:
    found = _SIZE.fullmatch(text)
    if not found:
        raise TraceqlError(f"'{text}' is not a size of memory; write it like 4GB or 512MiB")
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])


def machine_bytes() -> int:
    """The memory that this process may use at most."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [limit for path in _GROUP_LIMITS if (limit := _limit(Path(path))) is not None]
    return min([machine, *limits])


def _limit(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def end_with_parent() -> None:
    """Ends this process at once when the one that started it ends, even if that was killed."""
    Thread(target=_wait_and_end, daemon=True).start()


def _wait_and_end() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def leave_out_pandas() -> None:
    """For the rest of this process, pyarrow takes no values of pandas, unless pandas is there.

    pyarrow looks for pandas as soon as it converts a list, and again when it makes a frame.
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
