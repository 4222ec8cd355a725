"""What a `READER` needs whose package has a module with `prepare`, which leaves relations.

That module is imported when a file is read.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceql.readers.tables import TraceTables


def read(
    module: str,
    path: Path,
    folder: Path | None = None,
    memory_bytes: int = 1 << 30,
    threads: int = 1,
    *,
    trace_processor: Path | None = None,
) -> "Iterator[TraceTables]":
    """Both `read` and `stream` of a Reader; slices are nested without the trace processor."""
    from traceql.readers.relations import read_relations

    prepare = import_module(module).prepare
    return read_relations(path, prepare, folder=folder, memory_bytes=memory_bytes, threads=threads)


def feed(module: str, path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    """The `feed` of a Reader."""
    from traceql.readers.relations import feed_relations

    return feed_relations(path, import_module(module).prepare, base_ns, metadata)
