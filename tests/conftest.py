"""What every test process does before its first test and after its last."""

import os

import fast_folder
import pytest
import shared_files
from nightly import mark_nightly
from page_text import leave_out_pictures

from traceql.database.loading import reading

# A process reads these when it first imports Ray, whichever test that is.
_OF_RAY = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0123456789abcdef" * 2,
    "RAY_USAGE_STATS_ENABLED": "0",
}


def is_started_by_another(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def is_split(config: pytest.Config) -> bool:
    """Whether several processes run the tests; else the files are kept to look at."""
    return bool(config.getoption("numprocesses", None))


def pytest_configure(config: pytest.Config) -> None:
    os.environ.update(_OF_RAY)
    if not is_started_by_another(config):
        if is_split(config):
            fast_folder.begin()
        shared_files.begin()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_nightly(items)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not is_started_by_another(config):
        shared_files.end()
        fast_folder.end()


@pytest.fixture
def processes_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what passes between the process that loads and those that read."""
    monkeypatch.setattr(reading, "_SMALL_BYTES", -1)


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_pictures(monkeypatch)
