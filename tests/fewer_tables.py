"""Loads whose tables are made when a statement first reads them, for tests of a few tables."""

import pytest

from traceql.database.loading import load


@pytest.fixture(autouse=True)
def tables_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import it where many loads differ in what files state, and not in their events."""
    monkeypatch.setattr(load, "LOADED", ("trace", "recorder"))
