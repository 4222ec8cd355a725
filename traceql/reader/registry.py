"""Finds the readers: the subpackages of traceql.reader that define `READER`."""

import pkgutil
from importlib import import_module
from pathlib import Path

import traceql.reader
from traceql.dialect.registry import dialects
from traceql.errors import DefinitionInvalid
from traceql.reader.contract import Reader


def readers() -> list[Reader]:
    """All readers by name of their folder, the fallback last.

    Raises:
        DefinitionInvalid: a reader names a dialect that does not exist.
    """
    folders = [m.name for m in pkgutil.iter_modules(traceql.reader.__path__) if m.ispkg]
    modules = [import_module(f"traceql.reader.{name}") for name in sorted(folders)]
    found: list[Reader] = [m.READER for m in modules if hasattr(m, "READER")]
    for reader in found:
        if reader.dialect not in dialects():
            listed = ", ".join(dialects())
            raise DefinitionInvalid(
                f"reader {reader.name}: no dialect '{reader.dialect}' (there is: {listed})"
            )
    return sorted(found, key=lambda reader: reader.is_fallback)


def reader_of(path: Path) -> Reader:
    """The first reader that recognizes a file, else the fallback."""
    every = readers()
    return next((reader for reader in every if reader.recognises(path)), every[-1])


def suffixes() -> tuple[str, ...]:
    """How the names of trace files end, of all formats."""
    return tuple(suffix for reader in readers() for suffix in reader.suffixes)
