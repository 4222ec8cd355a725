"""A database of Ascend's profiler: its texts, and how times and numbers are read in SQL.

The declared types of columns are no promise: starts of PyTorch's events are texts. So every value
is asked for its own type, and what has another one counts as NULL. Only texts that events refer to
are read: the table of metadata also holds a part of the program's environment.
"""

import json
import re
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from pathlib import Path

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.dialects.ascend.vocabulary import IS_ANNOTATION, IS_PART_KERNEL
from traceql.readers.formats.ascend_db.names import STRINGS, is_profile, is_summary
from traceql.readers.sqlite_file import SqliteFile, connected

_ANEW = "analyse the recording again with torch_npu.profiler.profiler.analyse, or msprof --export"
_SUMMARY = (
    "is what was made from a profile, not a profile; load ascend_pytorch_profiler_*.db beside it"
)
_OTHER = (
    f"is no database of Ascend's profiler (no table {STRINGS} with texts, or none of its tables "
    f"with events); {_ANEW}"
)
_FARTHEST_NS = 2**62  # 146 years
CALL_CHAINS = "PYTORCH_CALLCHAINS"
_SEPARATOR = ";\r\n"
_MISSING = ("", "N/A")
_PATTERNS = {
    "is_annotation": re.compile(IS_ANNOTATION),
    "is_part_kernel": re.compile(IS_PART_KERNEL),
}


class Profile(SqliteFile):
    """The opened file. All errors are TraceCorrupt and do not name the file.

    Its SQL may call `text(id)`, the text of an id of table STRING_IDS, or NULL; `quoted(id)`, the
    same as JSON; `stated(id)`, the same without quotes, and NULL where it says that there is none;
    `stack(id)`, the calls around an event as JSON; and, as SQLite has no regular expressions,
    `is_annotation(name)` and `is_part_kernel(name)`.
    """

    def __init__(self, con: sqlite3.Connection) -> None:
        super().__init__(con, anew=_ANEW)
        if not is_profile(self.tables()):
            if is_summary(self.tables()):
                raise NotATrace(_SUMMARY)
            raise NotATrace(_OTHER)
        if not self.has(STRINGS, "id", "value"):
            raise TraceCorrupt(f"table {STRINGS} has no columns id and value; {_ANEW}")
        self._texts = {
            number: value
            for number, value in self.rows(f"SELECT id, value FROM {STRINGS}")
            if isinstance(number, int) and isinstance(value, str)
        }
        self._times: dict[str, str] = {}
        self.asked: dict[str, set[str]] = {}  # columns of each table that must have integers
        con.create_function("text", 1, self._texts.get, deterministic=True)
        con.create_function("quoted", 1, cache(self._quoted), deterministic=True)
        con.create_function("stated", 1, cache(self._stated), deterministic=True)
        con.create_function("stack", 1, self._stack)
        for name, pattern in _PATTERNS.items():
            con.create_function(name, 1, partial(_matches, pattern), deterministic=True)

    def whole(self, table: str, name: str) -> str:
        """A column as SQL: NULL if the table does not have it, or where it is no integer."""
        if not self.has(table, name):
            return "NULL"
        self.asked.setdefault(table, set()).add(name)
        return whole(f'{table}."{name}"')

    def text(self, table: str, name: str) -> str:
        """The text that a column refers to, as SQL."""
        return f"text({self.whole(table, name)})"

    def quoted(self, table: str, name: str) -> str:
        """The text that a column refers to, as SQL of JSON."""
        return f"quoted({self.whole(table, name)})" if self.has(table, name) else "NULL"

    def altered_texts(self) -> int:
        """The number of texts that are not UTF-8, whose odd bytes are replaced."""
        suspects = [n for n, text in self._texts.items() if "\N{REPLACEMENT CHARACTER}" in text]
        sql = f"SELECT CAST(value AS BLOB) FROM {STRINGS} WHERE id = ?"
        return sum(not is_utf8(self.value(sql, [number])) for number in suspects)

    def values_that_are_no_texts(self) -> int:
        """The number of values in the table of texts that are none, which count as unknown."""
        return int(
            self.value(
                f"SELECT COUNT(*) FROM {STRINGS} "
                "WHERE typeof(value) <> 'text' OR typeof(id) <> 'integer'"
            )
        )

    def ids_of(self, pattern: str) -> list[int]:
        """The ids of the texts that a regular expression fits."""
        fits = re.compile(pattern).search
        return [number for number, text in self._texts.items() if fits(text)]

    def times(self, *columns: str) -> list[str]:
        """SQL of the Unix times in columns, `TABLE.column`, ns; NULL where they are none.

        A column in which all are times is read as it is, which is faster.
        """
        for column in columns:
            if column not in self._times:
                self._times[column] = self._time(column)
        return [self._times[column] for column in columns]

    def _time(self, column: str) -> str:
        general, table = time(column), column.split(".")[0]
        rows = self.rows(
            f"SELECT MIN(typeof({column})), MAX(typeof({column})), MIN({column}), MAX({column}) "
            f"FROM {table}"
        )
        first, last, lowest, highest = rows[0]
        if first == last == "integer" and lowest > 0 and highest <= _FARTHEST_NS:
            return column
        is_none = f"SELECT 1 FROM {table} WHERE {general} IS NULL LIMIT 1"
        if first == last == "text" and not self.rows(is_none):
            return f"CAST({column} AS INTEGER)"
        return general

    def _quoted(self, number: object) -> str | None:
        text = self._texts.get(number) if isinstance(number, int) else None
        return None if text is None else json.dumps(text, ensure_ascii=False)

    def _stated(self, number: object) -> str | None:
        text = self._texts.get(number, "") if isinstance(number, int) else ""
        found = text.strip('"')
        return None if found in _MISSING else json.dumps(found, ensure_ascii=False)

    def _stack(self, chain: object) -> str | None:
        """The calls around an event, the innermost first, as the text export lists them."""
        calls = self._stacks.get(chain) if isinstance(chain, int) else None
        if calls is None:
            return None
        return json.dumps(_SEPARATOR.join(self._texts.get(call, "?") for call in calls))

    @cached_property
    def _stacks(self) -> Mapping[int, Sequence[int]]:
        """The ids of the texts of each chain of calls."""
        found: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        if self.has(CALL_CHAINS, "id", "stack", "stackDepth"):
            whole_rows = f"{whole('id')} IS NOT NULL AND {whole('stack')} IS NOT NULL"
            for chain, call in self.rows(
                f"SELECT id, stack FROM {CALL_CHAINS} WHERE {whole_rows} ORDER BY id, stackDepth"
            ):
                found[chain].append(call)
        return found

    def has_key(self, table: str, column: str) -> bool:
        """Whether a column is the primary key of a table, so that no two rows share a value."""
        sql = "SELECT name FROM pragma_table_info(?) WHERE pk > 0"
        return self.rows(sql, [table]) == [(column,)]

    def has_rows(self, table: str) -> bool:
        return self.has(table) and bool(self.rows(f"SELECT 1 FROM {table} LIMIT 1"))

    def count(self, table: str) -> int:
        """The number of rows; 0 if there is no such table."""
        return int(self.value(f"SELECT COUNT(*) FROM {table}")) if self.has(table) else 0


def whole(value: str) -> str:
    """SQL of an integer; NULL where it is of another type."""
    return f"CASE WHEN typeof({value}) = 'integer' THEN {value} END"


def time(value: str) -> str:
    """SQL of a Unix time, ns, which may be a text; NULL where it is none."""
    number = (
        f"CASE typeof({value}) WHEN 'integer' THEN {value} WHEN 'text' THEN CASE "
        f"WHEN {value} NOT GLOB '*[^0-9]*' AND length({value}) BETWEEN 1 AND 19 "
        f"THEN CAST({value} AS INTEGER) END END"
    )
    return f"CASE WHEN {number} BETWEEN 1 AND {_FARTHEST_NS} THEN {number} END"


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _matches(pattern: re.Pattern[str], name: object) -> bool:
    return isinstance(name, str) and pattern.search(name) is not None


@contextmanager
def opened(path: Path) -> Iterator[Profile]:
    """Opens a database, compressed or not, without leaving anything beside it.

    Raises:
        TraceCorrupt: the file is damaged, incomplete, or another SQLite database.
    """
    with connected(path) as con:
        yield Profile(con)
