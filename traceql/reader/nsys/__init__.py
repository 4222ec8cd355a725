"""The reader of Nsight Systems: what `nsys export` writes, as SQLite or as Parquet files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceql.reader.contract import Reader
from traceql.reader.first_bytes import begins_like_sqlite
from traceql.reader.nsys.parquet_layout import is_part, standing_file, traces_of_folder

if TYPE_CHECKING:
    from traceql.reader.tables import TraceTables

_REPORT = ".nsys-rep"
_SUFFIXES = (".sqlite", ".sqlite.gz", _REPORT)


def _recognises(path: Path) -> bool:
    """SQLite by how the file begins, compressed or not; others by their names and places."""
    return path.name.endswith(_REPORT) or is_part(path) or begins_like_sqlite(path)


def _is_superseded(path: Path) -> bool:
    """`nsys stats` and `nsys export` leave the SQLite file beside the report."""
    return path.name.endswith(_REPORT) and path.with_suffix(".sqlite").is_file()


def _read(path: Path, *, trace_processor: Path | None) -> "Iterator[TraceTables]":
    from traceql.reader.nsys.read import read_export

    return read_export(path, trace_processor=trace_processor)


def _feed(path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    from traceql.reader.nsys.read import perfetto_feed

    return perfetto_feed(path, base_ns, metadata)


READER = Reader(
    name="nsys",
    format="nsys export",
    suffixes=_SUFFIXES,
    dialect="nsys",
    recognises=_recognises,
    read=_read,
    feed=_feed,
    opens_in_perfetto=False,
    is_superseded=_is_superseded,
    whole=standing_file,
    traces_of_folder=traces_of_folder,
    is_general=True,
)
