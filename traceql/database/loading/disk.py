"""Whether a load fits on the disk, before it starts."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from traceql.errors import DatabaseError
from traceql.readers.ways import unpacked_bytes
from traceql.util.units import SIZE

# Of the unpacked size of the files, while they are loaded: their events in sections, what DuckDB
# sorts, and the new database (benchmarks/large_traces.py).
_NEEDED = 1.3
_WORTH_TELLING = 4 << 30


def require_room(
    files: Sequence[Path], folder: Path, done: Callable[[str, int, int], None]
) -> None:
    """Tells how much disk a large load needs, and how much is free.

    Args:
        folder: where the load writes.
        done: is called with disk, the bytes that are needed, and those that are free.

    Raises:
        DatabaseError: the load would not fit.
    """
    needed, free = needed_bytes(files), shutil.disk_usage(folder).free
    if needed < _WORTH_TELLING:
        return
    done("disk", needed, free)
    if needed > free:
        raise DatabaseError(
            f"the load needs about {SIZE.text(needed)} of disk in {folder}, where "
            f"{SIZE.text(free)} are free; free some space, or choose another place with -o"
        )


def needed_bytes(files: Sequence[Path]) -> int:
    """About how much disk a load of these files needs while it runs."""
    return int(_NEEDED * sum(map(unpacked_bytes, files)))
