"""SQLite files of profilers: whether they are complete, and their damage in one line."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from traceql.errors import TraceCorrupt
from traceql.readers.unpacked import REMAKE, pieces

_GZIP_MAGIC = b"\x1f\x8b"
_JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # zeros or nothing once all is in the file
_PIECE_BYTES = 4 << 20
_HEAD_BYTES = 100
_CREATED = re.compile(rb"CREATE TABLE\s{1,9}[\"'`\[]?([A-Za-z_][A-Za-z0-9_]{0,99})")
_LONGEST_STATEMENT = 128  # to the end of the name


def table_names(path: Path) -> frozenset[str]:
    """The names of the tables of a file, compressed or not; none if it cannot be read."""
    try:
        with TemporaryDirectory() as folder:
            uri = file_uri(settled_file(path, Path(folder)))
            with closing(sqlite3.connect(uri, uri=True)) as con:
                found = con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                return frozenset(str(name) for (name,) in found)
    except (TraceCorrupt, sqlite3.Error, OSError, UnicodeError):
        return frozenset()


def created_tables(path: Path, *, most_bytes: int | None = None) -> Iterator[str]:
    """The names of tables in the order of a file, which is unpacked piece by piece.

    They are all that follows CREATE TABLE, also in a text that mentions it. It ends where the file
    cannot be read.

    Args:
        most_bytes: where to stop, unpacked; None to look at the whole file.
    """
    before = b""
    most_pieces = None if most_bytes is None else max(1, most_bytes // _PIECE_BYTES)
    try:
        for piece in islice(pieces(path, _PIECE_BYTES), most_pieces):
            for found in _CREATED.finditer(before + piece):
                yield found[1].decode()
            before = piece[-_LONGEST_STATEMENT:]
    except (TraceCorrupt, OSError):
        return


def settled_file(path: Path, folder: Path) -> Path:
    """The file itself, or the unpacked one in a folder.

    Raises:
        TraceCorrupt: it is shorter than it says, or there are changes that are not in it yet.
    """
    file = path
    if _begins_with(path, _GZIP_MAGIC):
        file = folder / "unpacked.sqlite"
        with file.open("wb") as target:
            target.writelines(pieces(path, _PIECE_BYTES))
    else:
        log, journal = (path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal"))
        beside = log if log.exists() and log.stat().st_size else journal
        if beside == log or (journal.exists() and _begins_with(journal, _JOURNAL_MAGIC)):
            raise TraceCorrupt(
                f"{beside} has changes that are not in the file yet; close the program that has it "
                "open, or export it again"
            )
    with file.open("rb") as opened:
        head, size = opened.read(_HEAD_BYTES), file.stat().st_size
    page = int.from_bytes(head[16:18], "big")  # sqlite.org/fileformat.html
    stated = int.from_bytes(head[28:32], "big") * (page if page > 1 else 65536)
    if size < max(stated, _HEAD_BYTES):
        raise TraceCorrupt(f"ends after {size:,} of {stated:,} bytes; {REMAKE}")
    return file


def file_uri(file: Path) -> str:
    """Opens a file as immutable: SQLite neither locks it nor makes files beside it."""
    return f"file:{quote(str(file.absolute()))}?mode=ro&immutable=1"


def _begins_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


@contextmanager
def one_line() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise TraceCorrupt(f"damaged SQLite file ({error}); {REMAKE}") from None
    except UnicodeDecodeError:  # of the message of an error that names what is damaged
        raise TraceCorrupt(f"damaged SQLite file (a name is not UTF-8); {REMAKE}") from None
