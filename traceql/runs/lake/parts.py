"""Finds the files of runs, if several machines are to read them."""

from collections.abc import Sequence
from pathlib import Path

from traceql.database.loading.discovery import trace_files
from traceql.errors import TraceqlError
from traceql.runs.lake.layout import MARK
from traceql.runs.lake.manifest import Entry, entries
from traceql.runs.lake.places import is_url, store_at


def part_files(sources: Sequence[Path], lake: str, *, again: bool) -> dict[Path, list[Path]]:
    """The files of each run that are to be read one by one.

    A run is left out if it is one file, or if the lake seems to have it. What is read needs a
    folder that all machines see, so that none is parted for an object store.

    Raises:
        LakeError: the lake cannot be read.
    """
    if is_url(lake):
        return {}
    store = store_at(lake)
    known = entries(store) if store.size(MARK) is not None and not again else []
    found = {source: _files(source, known) for source in sources}
    return {source: files for source, files in found.items() if files}


def _files(source: Path, known: Sequence[Entry]) -> list[Path]:
    try:
        files = trace_files([source])
        sizes = {(str(file), file.stat().st_size) for file in files}
    except (TraceqlError, OSError):  # which whoever adds it will say
        return []
    if len(files) < 2 or any(one.is_ok and sizes <= _sizes(one) for one in known):
        return []
    return files


def _sizes(entry: Entry) -> set[tuple[str, int]]:
    return {(one.path, one.size_bytes) for one in entry.inputs}
