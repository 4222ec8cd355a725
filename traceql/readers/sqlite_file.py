"""An SQLite file that a profiler wrote: opened without a trace, and with its damage in one line.

Profilers leave out tables without rows, and columns come and go with their versions. So every table
and every column is asked for before it is read, and what is absent counts as empty or NULL. People
add columns and indexes; they are ignored.
"""

import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.shown import shown
from traceql.readers.unpacked import ANEW, pieces
from traceql.util.files import size_and_mtime

_GZIP_MAGIC = b"\x1f\x8b"
_JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # zeros or nothing once all is in the file
_PIECE_BYTES = 4 << 20
_HEAD_BYTES = 100
_CREATED = re.compile(rb"CREATE TABLE\s{1,9}[\"'`\[]?([A-Za-z_][A-Za-z0-9_]{0,99})")
_LONGEST_STATEMENT = 128  # to the end of the name
_BATCH_ROWS = 10_000
_PARAMETERS = 500  # SQLite takes at least 999


class SqliteFile:
    """The opened file. All errors are TraceCorrupt and do not name the file.

    Args:
        anew: how to make such a file again, for messages.
    """

    def __init__(self, con: sqlite3.Connection, *, anew: str = ANEW) -> None:
        self._con = con
        self._anew = anew
        con.text_factory = lambda text: text.decode("utf-8", "replace")  # not all of it is UTF-8

    @cached_property
    def _columns(self) -> Mapping[str, frozenset[str]]:
        """The columns of each table."""
        sql = "SELECT name FROM {} WHERE type = 'table'"
        places = ("sqlite_master", "sqlite_temp_master")
        names = [row[0] for place in places for row in self.rows(sql.format(place))]
        return {
            name: frozenset(
                row[0] for row in self.rows("SELECT name FROM pragma_table_info(?)", [name])
            )
            for name in names
        }

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there, with all these columns."""
        return table in self._columns and self._columns[table].issuperset(columns)

    def tables(self) -> Collection[str]:
        return self._columns.keys()

    def views(self) -> Set[str]:
        """The names of the views."""
        return {row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'view'")}

    def copy_views(self, names: Collection[str]) -> None:
        """Copies views of these names, so that they are read like the tables they stand for.

        A copy is in a file of SQLite's own. Call this before anything else is asked for.
        """
        for name in sorted(self.views() & set(names)):
            self.rows(f"CREATE TEMP TABLE {name} AS SELECT * FROM main.{name}")

    def require(self, table: str, *columns: str) -> None:
        """Raises TraceCorrupt if rows of a table cannot be read, for want of these columns."""
        absent = [name for name in columns if not self.has(table, name)]
        if absent and self.rows(f"SELECT 1 FROM {table} LIMIT 1"):
            listed = " and no ".join(absent)
            raise TraceCorrupt(f"table {table} has no column {listed}; {self._anew}")

    def column(self, table: str, name: str) -> str:
        """A column as SQL; NULL if the table does not have it."""
        return f'"{name}"' if self.has(table, name) else "NULL"

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a short result."""
        with one_line():
            return self._con.execute(sql, values).fetchall()

    def each(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a result of any length, one after the other."""
        with one_line():
            yield from self._con.execute(sql)

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The only value of a result; None if it has no row."""
        found = self.rows(sql, values)
        return found[0][0] if found else None

    def table(self, sql: str, schema: pa.Schema) -> pa.Table:
        """A result of any length as columns, batch by batch.

        Raises:
            TraceCorrupt: a value is not of its column's type.
        """
        batches = []
        with one_line():
            cursor = self._con.execute(sql)
            told = [name for name, *_ in cursor.description]
            while rows := cursor.fetchmany(_BATCH_ROWS):
                columns = [
                    _array(values, field, name if name.isidentifier() else field.name)
                    for values, field, name in zip(
                        zip(*rows, strict=True), schema, told, strict=True
                    )
                ]
                batches.append(pa.record_batch(columns, schema=schema))
        return pa.Table.from_batches(batches, schema)

    def texts_of(self, table: str, ids: Collection[int]) -> dict[int, str]:
        """The texts (`value`) of these ids (`id`) of a table, and no others."""
        found: dict[int, str] = {}
        wanted = sorted(ids)
        for first in range(0, len(wanted), _PARAMETERS):
            some = wanted[first : first + _PARAMETERS]
            marks = ", ".join("?" * len(some))
            rows = self.rows(f"SELECT id, value FROM {table} WHERE id IN ({marks})", some)
            found |= {number: text for number, text in rows if isinstance(text, str)}
        return found


def _array(values: Sequence[Any], field: pa.Field, told: str) -> pa.Array:
    """A column; errors tell it by its name in the file."""
    try:
        array = _typed(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        odd = next(value for value in values if not _fits(value, field.type))
        raise TraceCorrupt(
            f"column {told} has the value {shown(odd)[:60]!r}, which is no {field.type}; {ANEW}"
        ) from None
    if array.null_count and not field.nullable:
        raise TraceCorrupt(f"column {told} has no value in a row; {ANEW}")
    return array


def _typed(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """An array; unlike pyarrow's own, it takes no number with a fraction as an integer."""
    if pa.types.is_integer(type_) and any(
        isinstance(value, float) and not value.is_integer() for value in values
    ):
        raise pa.ArrowInvalid("a fraction")
    return pa.array(values, type_)


def _fits(value: Any, type_: pa.DataType) -> bool:
    try:
        _typed([value], type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens a file, compressed or not, without leaving anything beside it.

    Raises:
        TraceCorrupt: the file is damaged or incomplete, or changed meanwhile; the message does not
            name it.
    """
    before = size_and_mtime(path)
    with one_line():
        con = _connection(path)
    try:
        yield con
    finally:
        con.close()
    if size_and_mtime(path) != before:
        raise TraceCorrupt("changed while it was read; load it when nothing writes it any more")


def table_names(path: Path) -> frozenset[str]:
    """The names of the tables of a file, compressed or not; none if it cannot be read."""
    try:
        with connected(path) as con:
            return frozenset(
                str(name)
                for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            )
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


def is_compressed(path: Path) -> bool:
    """Whether a file is unpacked into memory when it is opened."""
    with path.open("rb") as file:
        return file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC


def settled_file(path: Path, folder: Path) -> Path:
    """The file itself, or the unpacked one in a folder.

    Raises:
        TraceCorrupt: it is shorter than it says, or there are changes that are not in it yet.
    """
    if is_compressed(path):
        file = folder / "unpacked.sqlite"
        with file.open("wb") as target:
            target.writelines(pieces(path, _PIECE_BYTES))
    else:
        file = path
        _require_settled(path)
    with file.open("rb") as opened:
        _require_whole(opened.read(_HEAD_BYTES), file.stat().st_size)
    return file


def file_uri(file: Path) -> str:
    """Opens a file as immutable: SQLite neither locks it nor makes files beside it."""
    return f"file:{quote(str(file.absolute()))}?mode=ro&immutable=1"


def _connection(path: Path) -> sqlite3.Connection:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(_GZIP_MAGIC):
        content = b"".join(pieces(path, _PIECE_BYTES))
        _require_whole(content[:_HEAD_BYTES], len(content))
        con = sqlite3.connect(":memory:")
        con.deserialize(_without_log(content))
        return con
    _require_whole(head, path.stat().st_size)
    _require_settled(path)
    # Immutable: SQLite neither locks the file nor makes files beside it.
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)


def _require_settled(path: Path) -> None:
    """Raises TraceCorrupt if there are changes beside the file that are not in it yet."""
    log, journal = (path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal"))
    if log.exists() and log.stat().st_size:
        beside = log
    elif journal.exists() and _begins_with(journal, _JOURNAL_MAGIC):
        beside = journal
    else:
        return
    raise TraceCorrupt(
        f"{beside} has changes that are not in the file yet; close the program that has it open, "
        "or export it again"
    )


def _begins_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _without_log(content: bytes) -> bytes:
    """A database in memory cannot have a write-ahead log: bytes 18 and 19 say whether it has."""
    return content[:18] + b"\x01\x01" + content[20:] if content[18:20] == b"\x02\x02" else content


def _require_whole(head: bytes, size: int) -> None:
    """Raises TraceCorrupt if a file is shorter than its head says (sqlite.org/fileformat.html)."""
    page = int.from_bytes(head[16:18], "big")
    stated = int.from_bytes(head[28:32], "big") * (page if page > 1 else 65536)
    if size < max(stated, _HEAD_BYTES):
        raise TraceCorrupt(f"ends after {size:,} of {stated:,} bytes; {ANEW}")


@contextmanager
def one_line() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise TraceCorrupt(f"damaged SQLite file ({error}); {ANEW}") from None
    except UnicodeDecodeError:  # of the message of an error that names what is damaged
        raise TraceCorrupt(f"damaged SQLite file (a name is not UTF-8); {ANEW}") from None
