"""The reader of Nsight Systems: what `nsys export` writes, as SQLite or as Parquet files."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from traceql.readers import relation_reader
from traceql.readers.contract import Reader
from traceql.readers.first_bytes import begins_like_sqlite

REPORT, PARQUET, TEXTS = ".nsys-rep", ".parquet", "StringIds"
_MODULE = "traceql.readers.formats.nsys.export"
_SEVERAL_WINDOWS_BYTES = 200 << 20  # the start of processes costs less
_SQLITE, _COMPRESSED = (".sqlite",), (".sqlite.gz",)
# One file stands for a folder of Parquet files, a table each: one that no other recording has too.
_STANDING = (
    *("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"),
    *("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "OSRT_API", TEXTS),
)


def is_part(path: Path) -> bool:
    """Whether a file is a table of an export in Parquet files; reading says which is missing."""
    return path.name.endswith(PARQUET) and any(_standing(path.parent))


def _standing(folder: Path) -> Iterator[Path]:
    files = (folder / f"{table}{PARQUET}" for table in _STANDING)
    return (file for file in files if file.is_file())


def _recognises(path: Path) -> bool:
    """SQLite by how the file begins, compressed or not; others by their names and places."""
    return path.name.endswith(REPORT) or is_part(path) or begins_like_sqlite(path)


def _is_superseded(path: Path) -> bool:
    """Of the forms of one recording in a folder, the SQLite file counts.

    `nsys stats` and `nsys export` leave it beside the report.
    """
    form = path.parent if is_part(path) else path
    for suffix in (*_COMPRESSED, REPORT, ".parquetdir"):
        if form.name.endswith(suffix):
            others = _SQLITE if suffix in _COMPRESSED else (*_SQLITE, *_COMPRESSED)
            name = form.name.removesuffix(suffix)
            return any(form.with_name(name + other).is_file() for other in others)
    return False


def _traces_of_folder(folder: Path) -> list[Path]:
    """The files that stand for the export in a folder, or for those in its folders."""
    folders = [folder] if any(_standing(folder)) else sorted(folder.iterdir())
    found = (next(_standing(one), None) for one in folders)
    return [file for file in found if file and not _is_superseded(file)]


READER = Reader(
    name="nsys",
    format="nsys export",
    suffixes=(*_SQLITE, *_COMPRESSED, REPORT),
    dialect="nsys",
    recognises=_recognises,
    read=partial(relation_reader.read, _MODULE),
    stream=partial(relation_reader.read, _MODULE),
    streamed_bytes=_SEVERAL_WINDOWS_BYTES,
    feed=partial(relation_reader.feed, _MODULE),
    opens_in_perfetto=False,
    is_superseded=_is_superseded,
    # Reports are read by nsys, and Parquet is compressed in itself.
    files=lambda path: [] if path.name.endswith(REPORT) or is_part(path) else [path],
    whole=lambda path: next(_standing(path.parent), path) if is_part(path) else path,
    traces_of_folder=_traces_of_folder,
    is_general=True,
    runs_engine=False,
)
