"""Collects all definitions: the files in the folders below, and the view of findings."""

from collections.abc import Mapping
from pathlib import Path

from traceql.derive.definition import Definition, definition, parsed_definition
from traceql.errors import DefinitionInvalid
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
        DefinitionInvalid: two files have one name, or a file needs what none defines.
    """
    files = [
        path
        for folder in TABLE_FOLDERS
        for path in sorted(folder.iterdir())
        if path.suffix in (".sql", ".py") and path.stem != "__init__"
    ]
    found: dict[str, Definition] = {}
    for one in (*map(definition, files), parsed_definition(FINDING_VIEW, finding_view())):
        if one.name in found:
            raise DefinitionInvalid(f"{found[one.name].path} and {one.path} define the same table")
        found[one.name] = one
    for one in found.values():
        for needed in one.needs:
            if needed not in found:
                raise DefinitionInvalid(f"{one.path}: no file defines '{needed}', which it needs")
    return found
