"""The reader of Nsight Systems: what `nsys export` writes, as SQLite or as Parquet files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceql.readers.contract import Reader
from traceql.readers.first_bytes import begins_like_sqlite
from traceql.readers.formats.nsys.parquet_layout import exports_of_folder, is_part, standing_file

if TYPE_CHECKING:
    from traceql.readers.tables import TraceTables

_REPORT = ".nsys-rep"
_SEVERAL_WINDOWS_BYTES = 200 << 20  # the start of processes costs less
_SQLITE, _COMPRESSED = (".sqlite",), (".sqlite.gz",)
_SUFFIXES = (*_SQLITE, *_COMPRESSED, _REPORT)


def _recognises(path: Path) -> bool:
    """SQLite by how the file begins, compressed or not; others by their names and places."""
    return path.name.endswith(_REPORT) or is_part(path) or begins_like_sqlite(path)


def _is_superseded(path: Path) -> bool:
    """Of the forms of one recording in a folder, the SQLite file counts.

    `nsys stats` and `nsys export` leave it beside the report.
    """
    form = path.parent if is_part(path) else path
    for suffix in (*_COMPRESSED, _REPORT, ".parquetdir"):
        if form.name.endswith(suffix):
            others = _SQLITE if suffix in _COMPRESSED else (*_SQLITE, *_COMPRESSED)
            name = form.name.removesuffix(suffix)
            return any(form.with_name(name + other).is_file() for other in others)
    return False


def _files(path: Path) -> list[Path]:
    """Reports are read by nsys, and Parquet is compressed in itself."""
    return [] if path.name.endswith(_REPORT) or is_part(path) else [path]


def _traces_of_folder(folder: Path) -> list[Path]:
    return [path for path in exports_of_folder(folder) if not _is_superseded(path)]


def _read(path: Path, *, trace_processor: Path | None) -> "Iterator[TraceTables]":
    from traceql.readers.formats.nsys.export import prepare
    from traceql.readers.relations import read_relations

    return read_relations(path, prepare)


def _stream(path: Path, folder: Path, memory_bytes: int, processes: int) -> "Iterator[TraceTables]":
    from traceql.readers.formats.nsys.export import prepare
    from traceql.readers.relations import read_relations

    return read_relations(
        path, prepare, folder=folder, memory_bytes=memory_bytes, threads=processes
    )


def _feed(path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    from traceql.readers.formats.nsys.export import prepare
    from traceql.readers.relations import feed_relations

    return feed_relations(path, prepare, base_ns, metadata)


READER = Reader(
    name="nsys",
    format="nsys export",
    suffixes=_SUFFIXES,
    dialect="nsys",
    recognises=_recognises,
    read=_read,
    stream=_stream,
    streamed_bytes=_SEVERAL_WINDOWS_BYTES,
    feed=_feed,
    opens_in_perfetto=False,
    is_superseded=_is_superseded,
    files=_files,
    whole=standing_file,
    traces_of_folder=_traces_of_folder,
    is_general=True,
    runs_engine=False,
)
