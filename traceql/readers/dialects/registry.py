"""Finds the dialects, which are the folders of this package, and calls them.

A dialect has a module `vocabulary` with CATEGORIES, and with KNOWN_KEYS if its files have keys at
the top that a program may add to. It may have a module `metadata` with a function
`facts`, a module `wording` with WORDS (what traceql calls its devices), and a folder `tables` with
the tables that only its events can fill.
"""

import json
import pkgutil
from collections.abc import Mapping, Set
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import traceql.readers.dialects
from traceql.errors import DefinitionInvalid, reason
from traceql.readers.dialects.event_kinds import EventKind
from traceql.readers.dialects.facts import FileFacts


def dialects() -> list[str]:
    """The names of all dialects."""
    return sorted(
        m.name for m in pkgutil.iter_modules(traceql.readers.dialects.__path__) if m.ispkg
    )


@cache
def categories(dialect: str) -> Mapping[str, str]:
    """What events of each category are, by category in lower case.

    Raises:
        DefinitionInvalid: the dialect does not say it, or names a kind that does not exist.
    """
    name = f"traceql.readers.dialects.{dialect}.vocabulary"
    try:
        found: Mapping[str, str] = import_module(name).CATEGORIES
    except (ImportError, AttributeError, SyntaxError) as error:
        raise DefinitionInvalid(f"{name} has no CATEGORIES: {reason(error)}") from error
    if unknown := sorted(set(found.values()) - set(EventKind)):
        listed = ", ".join(EventKind)
        raise DefinitionInvalid(f"{name}: no kind of event '{unknown[0]}' (there is: {listed})")
    return found


def kind_of(dialect: str, cat: str) -> str | None:
    """What events of a category are; None if it is unknown, and its events may be activities."""
    found = categories(dialect).get(cat.lower())
    unknown = getattr(_module(dialect, "vocabulary"), "kind_of", lambda _cat: "other")
    return found or unknown(cat)


def known_keys(dialect: str) -> Set[str] | None:
    """The keys at the top of a file that are kept; None if its reader chooses what is kept."""
    found: Set[str] | None = getattr(_module(dialect, "vocabulary"), "KNOWN_KEYS", None)
    return found


def file_facts(dialect: str, metadata: Mapping[str, Any]) -> FileFacts:
    """What the metadata of a file says, as its dialect reads it."""
    module = _module(dialect, "metadata")
    found: FileFacts = module.facts(metadata) if module else FileFacts()
    return found


def words(dialect: str) -> Mapping[str, str]:
    """What to write for words that are said of GPUs alone, in this order; empty if they fit."""
    module = _module(dialect, "wording")
    found: Mapping[str, str] = module.WORDS if module else {}
    return found


def replaced(text: str, words_by_general: Mapping[str, str]) -> str:
    """A text with what `words` says to write."""
    for general, own in words_by_general.items():
        text = text.replace(general, own)
    return text


def _module(dialect: str, name: str) -> Any:
    """A module that a dialect may have."""
    path = f"traceql.readers.dialects.{dialect}.{name}"
    return import_module(path) if find_spec(path) else None


def loaded_facts(dialect: str, metadata: str | None) -> FileFacts:
    """What the metadata of a loaded file says; the arguments are columns of table trace."""
    return file_facts(dialect, json.loads(metadata or "{}"))


def table_folders() -> list[Path]:
    """The folders with the tables that only a dialect can make from its events."""
    found = (
        Path(folder) / name / "tables"
        for folder in traceql.readers.dialects.__path__
        for name in dialects()
    )
    return [folder for folder in found if folder.is_dir()]
