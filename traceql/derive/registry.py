"""Collects all definitions: the files in the folders below, and the view of findings."""

from collections.abc import Mapping
from pathlib import Path

from traceql.derive.definition import Definition, Kind, definition, parsed_definition
from traceql.findings.view import FINDING_VIEW, finding_view

_PACKAGE = Path(__file__).resolve().parent
TABLE_FOLDERS = [  # each a folder with one file per table, view or macro
    _PACKAGE / "tables",
    _PACKAGE / "macros",
    _PACKAGE.parent / "dialect" / "pytorch" / "tables",
]


def definitions() -> Mapping[str, Definition]:
    """Every definition by name.

    Raises:
        QueryInvalid: the head of a file is invalid.
    """
    files = [
        path
        for folder in TABLE_FOLDERS
        for path in sorted(folder.iterdir())
        if path.suffix in (".sql", ".py") and path.stem != "__init__"
    ]
    found = [definition(path) for path in files]
    found.append(parsed_definition(FINDING_VIEW, finding_view()))
    return {one.name: one for one in found}


def sources() -> list[Definition]:
    """The definitions of the source tables, which loading fills."""
    return [one for one in definitions().values() if one.kind is Kind.SOURCE]
