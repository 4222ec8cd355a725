"""Finds the readers: the subpackages of traceql.readers.formats, each with a `READER`."""

import pkgutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import traceql.readers.formats
from traceql.errors import DefinitionInvalid, reason
from traceql.readers.compression import MAGIC_BYTES, Packing, packing_of
from traceql.readers.contract import Reader
from traceql.readers.dialects.registry import dialects


def readers() -> list[Reader]:
    """All readers by name of their folder, those last that take what others recognise too.

    Raises:
        DefinitionInvalid: a reader cannot be imported, names a dialect that does not exist, or does
            not fit the others.
    """
    folders = [m.name for m in pkgutil.iter_modules(traceql.readers.formats.__path__) if m.ispkg]
    found = [_reader(name) for name in sorted(folders)]
    known = dialects()
    for reader in found:
        if reader.dialect not in known:
            listed = ", ".join(known)
            raise DefinitionInvalid(
                f"reader {reader.name}: no dialect '{reader.dialect}' (there is: {listed})"
            )
    _require_fitting(found)
    return sorted(found, key=lambda reader: (reader.is_fallback, reader.is_general))


def _reader(folder: str) -> Reader:
    """The reader in a folder."""
    name = f"traceql.readers.formats.{folder}"
    try:
        found = import_module(name).READER
    except Exception as error:
        raise DefinitionInvalid(f"cannot import READER from {name}: {reason(error)}") from error
    if not isinstance(found, Reader):
        raise DefinitionInvalid(f"{name}: READER is a {type(found).__name__}, not a Reader")
    return found


def _require_fitting(found: Sequence[Reader]) -> None:
    names = [reader.name for reader in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise DefinitionInvalid(f"two readers have the name '{twice[0]}'; rename one of them")
    fallbacks = [reader.name for reader in found if reader.is_fallback]
    if len(fallbacks) != 1:
        listed = ", ".join(fallbacks) or "none"
        raise DefinitionInvalid(f"one reader must be the fallback (is_fallback), not {listed}")


def reader_of(path: Path) -> Reader:
    """The first reader that recognizes a file, else the fallback."""
    every = readers()
    return next((reader for reader in every if reader.recognises(path)), every[-1])


def opens_in_perfetto(path: Path) -> bool:
    """Whether the Perfetto UI opens a file as it is."""
    with path.open("rb") as file:
        packing = packing_of(file.read(MAGIC_BYTES))
    return packing in (None, Packing.GZIP) and reader_of(path).opens_in_perfetto


def is_superseded(path: Path) -> bool:
    """Whether a file of a folder is left out, because another file beside it was made from it."""
    return any(reader.is_superseded(path) for reader in readers())


def is_trace_of_another_name(path: Path) -> bool:
    """Whether a file of a folder is a trace though its name does not end like one."""
    return any(reader.is_trace_of_another_name(path) for reader in readers())


def whole(path: Path) -> Path:
    """The file that stands for the recording that a file is part of."""
    return reader_of(path).whole(path)


def traces_of_folder(folder: Path) -> list[Path]:
    """The traces of a folder that is laid out as one of the profilers writes it; else empty."""
    return [path for reader in readers() for path in reader.traces_of_folder(folder)]


def suffixes() -> tuple[str, ...]:
    """How the names of trace files end, of all formats."""
    return tuple(dict.fromkeys(suffix for reader in readers() for suffix in reader.suffixes))
