"""The reader of Ascend's db export: ascend_pytorch_profiler_{rank}.db, and msprof_{time}.db."""

from functools import partial
from pathlib import Path

from traceql.readers import relation_reader
from traceql.readers.contract import Reader
from traceql.readers.first_bytes import begins_like_sqlite
from traceql.readers.formats.ascend_db.names import ANALYSIS, PROFILES, is_of_ascend

_MODULE = "traceql.readers.formats.ascend_db.read"
_SUFFIXES = (".db", ".db.gz")
_MOST_PACKED_BYTES = 64 << 20  # to unpack into memory only for the names of the tables
_FIRST_BYTES = 64 << 20  # to look for tables in, of a file that is named like those of others


def _recognises(path: Path) -> bool:
    """By the name, and else, as nothing but the tables tells SQLite files apart, by the tables."""
    if not begins_like_sqlite(path):
        return False
    if PROFILES.search(path.name) or path.name == ANALYSIS:
        return True
    from traceql.readers.sqlite_file import table_names

    if path.name.endswith(".gz") and path.stat().st_size > _MOST_PACKED_BYTES:
        most_bytes = None if path.name.endswith(_SUFFIXES) else _FIRST_BYTES
        return _creates_tables_of_ascend(path, most_bytes)
    return is_of_ascend(table_names(path))


def _creates_tables_of_ascend(path: Path, most_bytes: int | None) -> bool:
    """Whether a file too large to be unpacked into memory for that has the tables."""
    from traceql.readers.sqlite_file import created_tables

    found: set[str] = set()
    for name in created_tables(path, most_bytes=most_bytes):
        found.add(name)
        if is_of_ascend(found):
            return True
    return False


def _is_superseded(path: Path) -> bool:
    """What the profiler made from a profile."""
    return path.name == ANALYSIS


READER = Reader(
    name="ascend_db",
    format="ascend db",
    suffixes=_SUFFIXES,
    dialect="ascend",
    recognises=_recognises,
    read=partial(relation_reader.read, _MODULE),
    stream=partial(relation_reader.read, _MODULE),
    feed=partial(relation_reader.feed, _MODULE),
    runs_engine=False,
    opens_in_perfetto=False,
    is_superseded=_is_superseded,
)
