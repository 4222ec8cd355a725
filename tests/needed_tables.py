"""Loads that make only some tables, for many files of which a test reads no others."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from traceql.sql import execute
from traceql.sql.definition import Definition, Kind
from traceql.sql.registry import definitions


@contextmanager
def only_tables(*names: str) -> Iterator[None]:
    """What is loaded in this block has these tables and those that they are made from."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(execute, "definitions", lambda: _needed(names))
        yield


def _needed(names: tuple[str, ...]) -> Mapping[str, Definition]:
    defined = definitions()
    found = {name for name, one in defined.items() if one.kind is Kind.SOURCE}
    to_visit = [*names]
    while to_visit:
        name = to_visit.pop()
        if name not in found:
            found.add(name)
            to_visit += defined[name].needs
    return {name: one for name, one in defined.items() if name in found}
