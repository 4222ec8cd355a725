"""The reader of Ascend's db export: ascend_pytorch_profiler_{rank}.db, and msprof_{time}.db."""

from functools import partial
from pathlib import Path

from traceql.readers import relation_reader
from traceql.readers.contract import Reader
from traceql.readers.first_bytes import begins_like_sqlite
from traceql.readers.formats.ascend_db.names import ANALYSIS, PROFILES, is_profile, is_summary

_MODULE = "traceql.readers.formats.ascend_db.read"
_SUFFIXES = (".db", ".db.gz")
_MOST_BYTES = 64 << 20  # to unpack into memory, or to look for tables in, of any other file


def _recognises(path: Path) -> bool:
    """By the name, and else, as nothing but the tables separates SQLite files, by the tables."""
    if not begins_like_sqlite(path):
        return False
    if PROFILES.search(path.name) or path.name == ANALYSIS:
        return True
    from traceql.readers.sqlite_file import created_tables, table_names

    if not path.name.endswith(".gz") or path.stat().st_size <= _MOST_BYTES:
        tables = table_names(path)
        return is_profile(tables) or is_summary(tables)
    found: set[str] = set()
    most_bytes = None if path.name.endswith(_SUFFIXES) else _MOST_BYTES
    for name in created_tables(path, most_bytes=most_bytes):
        found.add(name)
        if is_profile(found) or is_summary({name}):
            return True
    return False


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
    is_superseded=lambda path: path.name == ANALYSIS,  # which was made from a profile
)
