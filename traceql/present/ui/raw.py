"""The trace file of a rank, as the Perfetto UI opens it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from traceql.database.trace import Trace
from traceql.readers.registry import opens_in_perfetto


@contextmanager
def raw_file(trace: Trace, rank: int | None) -> Iterator[tuple[Path, int]]:
    """The file of a rank, and what to add to `ts` to get its times, ns.

    Databases and tables of other profilers are not traces to the Perfetto UI: it gets their events
    as JSON, until the block ends.
    """
    path, to_file_ns = trace.file_of(rank)
    fed = None if opens_in_perfetto(path) else trace.feed(rank)
    if fed is None:
        yield path, to_file_ns
        return
    with TemporaryDirectory(prefix="traceql-raw-") as folder:
        made = Path(folder) / f"{path.stem}.json"
        with made.open("wb") as file:
            file.writelines(fed)
        yield made, 0
