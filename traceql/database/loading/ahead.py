"""Reads the files of a run one by one, before they are loaded, as on several machines."""

import hashlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from traceql.database.loading.reading import FileRead, Workers, results
from traceql.readers.worker import Request

_NONCE = "ahead"


def read_ahead(
    file: Path,
    folder: Path,
    *,
    trace_processor: Path | None,
    memory_bytes: int,
    processes: int,
) -> None:
    """Reads a file into a folder, where it appears when it is complete. It may be read twice.

    Args:
        file: as `traceql.database.loading.discovery` names it.
        folder: for all files of a load; it exists.
        trace_processor: a native trace_processor_shell to use instead of the bundled one.
        memory_bytes: how much memory to use, about.
        processes: how many processes may read the file.

    Raises:
        TraceqlError: the file cannot be read, which a load will say too.
    """
    draft = folder / f"draft-{token_hex(8)}"
    request = Request(
        str(file),
        str(draft),
        _NONCE,
        trace_processor=str(trace_processor) if trace_processor else None,
        memory_bytes=memory_bytes,
        processes=processes,
    )
    Workers().read(request)
    with suppress(OSError):  # another process has read it meanwhile
        draft.rename(_place(file, folder))


def recordings_ahead(
    files: Sequence[Path], folder: Path, loaded: Collection[str]
) -> dict[Path, list[FileRead]]:
    """The recordings of those files that have been read into a folder, where they stay.

    Args:
        loaded: SHA-256 of files of which they are not wanted.
    """
    found = {}
    for file in files:
        with suppress(FileNotFoundError):
            read = results(file, Request(str(file), str(_place(file, folder)), _NONCE))
            if read[0].sha256 not in loaded:
                found[file] = [replace(one, is_kept=True) for one in read]
    return found


def _place(file: Path, folder: Path) -> Path:
    return folder / hashlib.sha256(bytes(file)).hexdigest()[:16]
