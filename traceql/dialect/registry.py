"""Finds the dialects: the folders of this package, each with a module `vocabulary`."""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

import traceql.dialect


def dialects() -> list[str]:
    """The names of all dialects."""
    return sorted(m.name for m in pkgutil.iter_modules(traceql.dialect.__path__) if m.ispkg)


@cache
def categories(dialect: str) -> Mapping[str, str]:
    """What events of each category are, by category in lower case."""
    vocabulary = import_module(f"traceql.dialect.{dialect}.vocabulary")
    found: Mapping[str, str] = vocabulary.CATEGORIES
    return found


def table_folders() -> list[Path]:
    """The folders with the tables that only a dialect can make from its events."""
    found = (
        Path(folder) / name / "tables" for folder in traceql.dialect.__path__ for name in dialects()
    )
    return [folder for folder in found if folder.is_dir()]
