"""Collects all definitions: the files in the folders below, and the causes of the diagnosis."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import Path

from traceql.analysis.diagnosis.catalog import CAUSE_FOLDERS, PARTS, Cause, causes
from traceql.errors import DefinitionInvalid
from traceql.readers.dialects.registry import table_folders
from traceql.sql.definition import Definition, Kind, Schema, Scope, definition
from traceql.util.text import Column

_PACKAGE = Path(__file__).resolve().parent
TABLE_FOLDERS = [  # each a folder with one file per table or macro
    _PACKAGE / "tables",
    _PACKAGE / "macros",
    PARTS,
]
_DIAGNOSIS = "diagnosis"  # the table that reads the rows of all causes


def definitions() -> Mapping[str, Definition]:
    """Every definition by name.

    Raises:
        QueryInvalid: the head of a file is invalid.
        DefinitionInvalid: two files have one name, or a file needs what it cannot have.
    """
    return _read_all(_files([*TABLE_FOLDERS, *table_folders()]), _files(CAUSE_FOLDERS))


def _files(folders: Iterable[Path]) -> tuple[tuple[str, int], ...]:
    """The SQL and Python files of folders, and when each was modified."""
    return tuple(
        (entry.path, entry.stat().st_mtime_ns)
        for folder in folders
        for entry in sorted(os.scandir(folder), key=attrgetter("name"))
        if entry.name.endswith((".sql", ".py")) and entry.name != "__init__.py"
    )


@lru_cache(maxsize=1)
def _read_all(
    files: tuple[tuple[str, int], ...], _causes: tuple[tuple[str, int], ...]
) -> Mapping[str, Definition]:
    """The definitions in these files, which are read and checked once until one changes."""
    found: dict[str, Definition] = {}
    rows_of_causes = [_rows_of(cause) for cause in causes().values()]
    for one in (*(_read(Path(file), modified_ns) for file, modified_ns in files), *rows_of_causes):
        if one.name in found:
            raise DefinitionInvalid(f"{found[one.name].path} and {one.path} define the same table")
        found[one.name] = one
    diagnosis = found[_DIAGNOSIS]
    found[_DIAGNOSIS] = replace(
        diagnosis, needs=(*diagnosis.needs, *(one.name for one in rows_of_causes))
    )
    for one in found.values():
        for needed in one.needs:
            _require_fitting(one, needed, found)
    return found


def _rows_of(cause: Cause) -> Definition:
    """The table with the row of a cause, which table diagnosis reads."""
    return Definition(
        cause.table,
        Kind.SCRATCH,
        Schema.INTERNAL,
        Scope.RUN,
        cause.needs,
        cause.empty_unless,
        cause.summary,
        "",
        (Column("is_confirmed", "BOOLEAN", "Whether the run has it."),),
        cause.path,
        cause.select,
    )


def public_tables() -> Mapping[str, Definition]:
    """The definitions of the tables of the schema main, by name."""
    return {n: one for n, one in sorted(definitions().items()) if one.schema is Schema.MAIN}


def place_of(table: str) -> str:
    """Where a table is that a statement does not find in main; empty if it is no such table."""
    one = definitions().get(table.strip('"').lower())
    if one is None or not one.kind.is_kept or one.schema is Schema.MAIN:
        return ""
    return f"table '{one.name}' is {one.schema}.{one.name}"


@cache
def _read(path: Path, _modified_ns: int) -> Definition:
    """The definition in a file, which is read once until it changes."""
    return definition(path)


def _require_fitting(one: Definition, needed: str, found: Mapping[str, Definition]) -> None:
    if needed not in found:
        raise DefinitionInvalid(f"{one.path}: no file defines '{needed}', which it needs")
    if one.scope is Scope.RANK and found[needed].scope is Scope.RUN:
        raise DefinitionInvalid(
            f"{one.path}: its scope is rank, but it needs '{needed}' of the run"
        )
