"""Reads the file that defines a table: its kind, schema, inputs and columns, and how it is made.

This is the file of table `launch`, shortened:

-- One row per CUDA or HIP runtime or driver call on the host, whether it launches something or not.
-- ...
-- @scope  rank
-- @needs  event_kind, iteration, slice
-- @column id           BIGINT   Id of the call; the same number as slice.id.
-- @column rank         BIGINT   Rank that made the call.
-- ...
SELECT ...

A head may also say without what the table has no rows, so that neither it nor what it needs has to
be computed. If there are several such lines, rows of any of them are enough:

-- @empty_unless trace WHERE dialect = 'ascend'

The table is named after the file. A SQL file of kind table or scratch holds one SELECT, and the
executor creates a table from it. The file of a source table holds its CREATE TABLE,
that of a macro its CREATE MACRO. A Python file has the same head in `#` comments and a function
`rows(con)` that returns the rows as an Arrow table, or yields them in several tables.
"""

import csv
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa

from traceql.errors import DefinitionInvalid, reason
from traceql.util.text import (
    Column,
    CommentHead,
    comment_head,
    described_columns,
    literal,
    source_text,
)

_TAGS = ("kind", "schema", "scope", "needs", "empty_unless", "column")
_ARROW_TYPES = {
    "BIGINT": pa.int64(),
    "BIGINT[]": pa.list_(pa.int64()),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "MAP(VARCHAR, DOUBLE)": pa.map_(pa.string(), pa.float64()),
    "MAP(VARCHAR, VARCHAR)": pa.map_(pa.string(), pa.string()),
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
}
_WORD = re.compile(r"\w+")
_ROWS = re.compile(r"(?P<table>\w+)( WHERE .+)?")
Choice = TypeVar("Choice", bound=StrEnum)
Rows = Callable[[duckdb.DuckDBPyConnection], pa.Table | Iterator[pa.Table]]


def table_head(path: Path, source: str) -> CommentHead:
    """The head of a SQL or Python file with this text.

    Raises:
        QueryInvalid: there is none, or it has another tag; the message quotes the line.
    """
    mark = "#" if path.suffix == ".py" else "--"
    return comment_head(path.name, source, _TAGS, mark=mark)


def declared_schema(file: str) -> pa.Schema:
    """The Arrow schema of the columns that a Python file declares in its head."""
    path = Path(file)
    head = table_head(path, path.read_text(encoding="utf-8"))
    columns = described_columns(path.name, head)
    for column in columns:
        if column.type not in _ARROW_TYPES:
            known = ", ".join(_ARROW_TYPES)
            raise DefinitionInvalid(f"{path}: {column.name} is {column.type}, not one of {known}")
    return pa.schema([(column.name, _ARROW_TYPES[column.type]) for column in columns])


def csv_table(file: str) -> pa.Table:
    """The rows of the CSV file beside a Python file, with the columns that it declares.

    `position` is the place of a row. An empty number is NULL; spaces separate the texts of a list.
    """
    with Path(file).with_suffix(".csv").open(newline="", encoding="utf-8") as opened:
        rows = [{**row, "position": str(place)} for place, row in enumerate(csv.DictReader(opened))]
    schema = declared_schema(file)
    columns = []
    for field in schema:
        cells = [row[field.name] for row in rows]
        if pa.types.is_list(field.type):
            columns.append(pa.array([cell.split() for cell in cells], field.type))
        elif pa.types.is_string(field.type):
            columns.append(pa.array(cells, field.type))
        else:
            columns.append(pa.array([cell or None for cell in cells]).cast(field.type))
    return pa.table(columns, schema=schema)


class Kind(StrEnum):
    """What a definition makes.

    Loading fills source tables. Tables are made from them: some by every load, the others when
    something first needs them. Scratch tables exist only while others are made. Macros are
    functions of SQL, which each connection makes for itself; a table macro returns rows, in part of
    tables whose names a query gives it.
    """

    SOURCE = "source"
    TABLE = "table"
    SCRATCH = "scratch"
    MACRO = "macro"
    TABLE_MACRO = "table macro"

    @property
    def is_kept(self) -> bool:
        """Whether the database has it."""
        return self in (Kind.SOURCE, Kind.TABLE)

    @property
    def is_macro(self) -> bool:
        return self in (Kind.MACRO, Kind.TABLE_MACRO)


class Schema(StrEnum):
    """Where a table is.

    MAIN: the public tables, which a user's SQL sees by their names. INTERNAL: what these and the
    canned queries are made from. REFERENCE: tables that are the same for every recording, unless
    the user adds rows.
    """

    MAIN = "main"
    INTERNAL = "internal"
    REFERENCE = "reference"


class Scope(StrEnum):
    """Whose rows a table is made from.

    RANK: the rows of each rank are made from the rows of that rank alone. Ids are unique within a
    rank. Where several ranks are made together, the ids of a later rank begin at a higher number,
    and times count from the first event of all ranks; nothing else differs. A table without a
    column `rank` has the rows of all ranks, each once. RUN: the table needs the rows of all ranks.
    """

    RANK = "rank"
    RUN = "run"


@dataclass(frozen=True)
class Definition:
    """One table or macro.

    Attributes:
        needs: the names of the tables and macros that it is made from.
        empty_unless: tables that it needs, perhaps with a WHERE: as long as none of them has a row,
            this one has none. Empty if the file names none.
        source: the text of the file, with its head.
    """

    name: str
    kind: Kind
    schema: Schema
    scope: Scope
    needs: tuple[str, ...]
    empty_unless: tuple[str, ...]
    summary: str
    text: str  # the prose below the summary
    columns: tuple[Column, ...]
    path: Path
    source: str

    @property
    def is_python(self) -> bool:
        return self.path.suffix == ".py"

    @cached_property
    def rows(self) -> Rows:
        """The function `rows` of a Python file.

        Raises:
            DefinitionInvalid: the file cannot be imported, or has no such function.
        """
        spec = importlib.util.spec_from_file_location(f"{__package__}.made.{self.name}", self.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise DefinitionInvalid(f"cannot import {self.path}: {reason(error)}") from error
        if not hasattr(module, "rows"):
            raise DefinitionInvalid(f"{self.path}: it has no function rows(con)")
        rows: Rows = module.rows
        return rows


def definition(path: Path) -> Definition:
    """The definition in a file.

    Raises:
        QueryInvalid: the file cannot be read, or a line of its head cannot be parsed; the message
            quotes it.
        DefinitionInvalid: its kind, schema or scope does not exist, or a line @empty_unless
            is wrong.
    """
    return parsed_definition(path, source_text(path))


def parsed_definition(path: Path, source: str) -> Definition:
    """The definition that a file with this text would have."""
    head = table_head(path, source)
    kind = _among(Kind, path, "kind", head.only("kind", Kind.TABLE))
    return Definition(
        path.stem,
        kind,
        _among(Schema, path, "schema", head.only("schema", Schema.INTERNAL)),
        _among(Scope, path, "scope", head.only("scope")),
        head.names("needs"),
        _empty_unless(path, kind, head),
        head.summary,
        head.text,
        described_columns(path.name, head),
        path,
        source,
    )


def _empty_unless(path: Path, kind: Kind, head: CommentHead) -> tuple[str, ...]:
    """The conditions of the lines @empty_unless."""
    lines = tuple(head.tags["empty_unless"])
    if lines and kind not in (Kind.TABLE, Kind.SCRATCH):
        raise DefinitionInvalid(f"{path}: @empty_unless is for tables, not for a {kind}")
    for line in lines:
        if table_of(line) not in head.names("needs"):
            raise DefinitionInvalid(
                f"{path}: @empty_unless '{line}' is not one table of @needs, perhaps with "
                "'WHERE condition'"
            )
    return lines


def table_of(line: str) -> str:
    """The table that a line @empty_unless names; empty if the line is wrong."""
    found = _ROWS.fullmatch(line)
    return found["table"] if found else ""


def tables_of(one: Definition, line: str) -> set[str]:
    """The tables that a line @empty_unless reads, those of its condition too."""
    return set(one.needs) & set(_WORD.findall(line))


def _among(allowed: type[Choice], path: Path, tag: str, value: str) -> Choice:
    """The member of an enumeration that a tag names."""
    try:
        return allowed(value)
    except ValueError:
        listed = ", ".join(allowed)
        raise DefinitionInvalid(f"{path}: @{tag} is '{value}', not one of {listed}") from None


def comments(one: Definition, place: str) -> str:
    """The statements that describe a table and, if it is public, its columns.

    Each takes DuckDB as long as a short query; of other tables, docs/reference has the columns.

    Args:
        place: the name of the table, with database and schema if it needs them.
    """
    columns = one.columns if one.schema is Schema.MAIN else ()
    return described("TABLE", place, one.summary, {c.name: c.text for c in columns})


def described(what: str, name: str, summary: str, columns: Mapping[str, str]) -> str:
    """The statements that describe something and its columns.

    Args:
        what: TABLE or VIEW.
        columns: their texts by name.
    """
    lines = [f"COMMENT ON {what} {name} IS {literal(summary)};"]
    lines += [
        f"COMMENT ON COLUMN {name}.{column} IS {literal(text)};" for column, text in columns.items()
    ]
    return "\n".join(lines)
