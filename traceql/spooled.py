"""Rows that are made part by part, on disk if they are many."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

_IN_MEMORY_BYTES = 64 << 20


@contextmanager
def spooled(
    parts: Iterator[pa.Table], *, beside: Path | None
) -> Iterator[pa.Table | pa.RecordBatchReader]:
    """All parts, made before the block begins, so that it and what makes them do not mix.

    Args:
        parts: tables of one schema; one at least, which may be empty.
        beside: the folder for more than 64 MiB of them; None for the usual one.
    """
    first: list[pa.Table] = []
    for part in parts:
        first.append(part)
        if sum(one.nbytes for one in first) > _IN_MEMORY_BYTES:
            break
    else:
        yield pa.concat_tables(first)
        return
    with TemporaryDirectory(dir=beside) as folder:
        path = str(Path(folder) / "rows.arrow")
        with pa.ipc.new_file(path, first[0].schema) as sink:
            for part in chain(first, parts):
                sink.write_table(part)
            first.clear()
        with pa.memory_map(path) as source:
            yield pa.ipc.open_file(source).read_all()
