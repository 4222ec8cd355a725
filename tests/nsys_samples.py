"""Recorded exports of Nsight Systems: those in data/nsys, and any others, packed or not."""

import gzip
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from traceql.readers.formats.nsys.export import prepare
from traceql.readers.relations import read_relations
from traceql.readers.tables import TraceTables

FOLDER = Path(__file__).parent / "data" / "nsys"


def content(path: Path) -> bytes:
    """The SQLite file that an export is."""
    packed = path.read_bytes()
    return gzip.decompress(packed) if path.suffix == ".gz" else packed


def unpacked(name: str, target: Path) -> Path:
    """Writes an export of data/nsys, for a test to change."""
    target.write_bytes(content(FOLDER / f"{name}.sqlite.gz"))
    return target


@contextmanager
def in_memory(path: Path) -> Iterator[sqlite3.Connection]:
    """An export for SQLite alone to ask."""
    with closing(sqlite3.connect(":memory:")) as con:
        con.deserialize(content(path))
        yield con


def read_export(path: Path) -> Iterator[TraceTables]:
    """The tables of an export."""
    return read_relations(path, prepare)
