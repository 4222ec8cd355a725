"""The trace file of a rank, as the Perfetto UI opens it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from traceql.database.database import Database
from traceql.errors import TraceNotFound
from traceql.readers.registry import opens_in_perfetto, reader_of


@contextmanager
def raw_file(database: Database, rank: int | None) -> Iterator[tuple[Path, int]]:
    """The file of a rank, and what to add to `ts` to get its times, ns.

    The Perfetto UI cannot open databases and tables of other profilers: their events become a JSON
    file, which is removed after the block.
    """
    path, to_file_ns = trace_file(database, rank)
    converted = None if opens_in_perfetto(path) else trace_processor_input(database, rank)
    if converted is None:
        yield path, to_file_ns
        return
    with TemporaryDirectory(prefix="traceql-raw-") as folder:
        json_file = Path(folder) / f"{path.stem}.json"
        with json_file.open("wb") as file:
            file.writelines(converted)
        yield json_file, 0


def trace_file(database: Database, rank: int | None = None) -> tuple[Path, int]:
    """A rank's trace file, and what to add to `ts` to get the times in the file, ns.

    Raises:
        TraceNotFound: no such rank, or its file was moved or changed after it was loaded.
    """
    rows = database.select(
        "SELECT rank, path, size_bytes, file_offset_ns FROM trace "
        "WHERE rank IS NOT NULL ORDER BY rank"
    ).rows()
    row = next((r for r in rows if rank is None or r["rank"] == rank), None)
    if not rows:
        raise TraceNotFound(f"{database.path} has no trace; load one with traceql load TRACE")
    if row is None:
        loaded = ", ".join(str(r["rank"]) for r in rows)
        raise TraceNotFound(f"{database.path} has no rank {rank} (it has: {loaded})")
    path = Path(row["path"])
    if not path.is_file() or path.stat().st_size != row["size_bytes"]:
        raise TraceNotFound(f"{path} was moved or changed after it was loaded; load it again")
    return path, -row["file_offset_ns"]


def trace_processor_input(database: Database, rank: int | None = None) -> Iterator[bytes] | None:
    """A rank's trace file in a form that the trace processor accepts, with `ts` as in the database.

    None if it opens the file itself. Raises what `trace_file` raises.
    """
    path, base_ns = trace_file(database, rank)
    feed = reader_of(path).feed
    if feed is None:
        return None
    rows = database.select(
        "SELECT metadata FROM trace WHERE rank = COALESCE($rank, rank) ORDER BY rank LIMIT 1",
        {"rank": rank},
    )
    return feed(path, base_ns, json.loads(rows[0]["metadata"]))
