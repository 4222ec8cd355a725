"""What a file of a table says: its kind, its scope, what it reads, its columns, and how it is made.

    -- One row per CUDA or HIP runtime or driver call.
    -- @scope  rank
    -- @needs  event_kind, iteration, slice
    -- @column id  BIGINT  Row of slice.
    SELECT ...

The file's name is the table's. A SQL file of kind table, view or scratch holds one SELECT; the
executor creates what it selects. A source table's file holds its CREATE TABLE, a macro's its CREATE
MACRO. A Python file has the same head in `#` comments and a function `rows(con)` that returns the
table as Arrow.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.comment_head import Column, CommentHead, described_columns
from traceql.table_head import table_head

Rows = Callable[[duckdb.DuckDBPyConnection], pa.Table]


class Kind(StrEnum):
    """What a definition makes.

    A source table is filled by loading. A table or view stays in the database. A scratch table or
    scratch macro exists while the others are made.
    """

    SOURCE = "source"
    TABLE = "table"
    VIEW = "view"
    SCRATCH = "scratch"
    MACRO = "macro"
    SCRATCH_MACRO = "scratch macro"

    @property
    def is_scratch(self) -> bool:
        return self in (Kind.SCRATCH, Kind.SCRATCH_MACRO)

    @property
    def is_macro(self) -> bool:
        return self in (Kind.MACRO, Kind.SCRATCH_MACRO)


class Scope(StrEnum):
    """Whose rows a table is made from.

    RANK: each rank's rows come from that rank's rows alone; ids are unique within a rank, and where
    ranks are made together those of a later rank only begin at a higher number. RUN: all ranks'.
    """

    RANK = "rank"
    RUN = "run"


@dataclass(frozen=True)
class Definition:
    """One table, view or macro.

    Attributes:
        needs: the tables and macros that it is made from.
        source: the text of the file, head included.
    """

    name: str
    kind: Kind
    scope: Scope
    needs: tuple[str, ...]
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
        """The function of a Python file that makes the table."""
        spec = importlib.util.spec_from_file_location(f"{__package__}.made.{self.name}", self.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        rows: Rows = module.rows
        return rows


def definition(path: Path) -> Definition:
    """Reads a file.

    Raises:
        QueryInvalid: its head is not understood; the message quotes the line.
    """
    source = path.read_text(encoding="utf-8")
    return parsed_definition(path, source)


def parsed_definition(path: Path, source: str) -> Definition:
    """The definition that a file with this text would have."""
    head = table_head(path, source)
    return Definition(
        path.stem,
        Kind(head.only("kind", Kind.TABLE)),
        Scope(head.only("scope")),
        _needs(head),
        head.summary,
        head.text,
        described_columns(path.name, head),
        path,
        source,
    )


def _needs(head: CommentHead) -> tuple[str, ...]:
    return tuple(name for line in head.tags["needs"] for name in line.replace(",", " ").split())
