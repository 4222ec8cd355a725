"""Databases of small traces have no comments, which take a third of the time to load one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from traceql.derive import execute
from traceql.derive.definition import Definition
from traceql.derive.describe import comments


def leave_out_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "comments", _none)


@contextmanager
def with_comments() -> Iterator[None]:
    """What is loaded in this block has the comments that it has outside tests."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(execute, "comments", comments)
        yield


def _none(_: Definition) -> str:
    return ""
