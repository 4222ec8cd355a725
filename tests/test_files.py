"""Files that are complete or absent, locks between processes, and folders of the user."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from traceql import user_folders
from traceql.cache import cached_database
from traceql.errors import DatabaseError, TraceqlError
from traceql.files import whole_file, write_whole
from traceql.loading.workspace import workspace

# What a load does as far as others can see: it fails if another one is in the workspace.
_LOADS = """
import sys, time
from pathlib import Path
from traceql.loading.workspace import workspace

folder = Path(sys.argv[1])
for _ in range(15):
    with workspace(folder / "run.duckdb") as place:
        assert not list(place.iterdir())
        (folder / "inside").touch(exist_ok=False)
        (place / "0").mkdir()
        (place / "0" / "slice.arrow").touch()
        time.sleep(0.002)
        (folder / "inside").unlink()
"""
_WAITS_INSIDE = """
import sys, time
from pathlib import Path
from traceql.loading.workspace import workspace

with workspace(Path(sys.argv[1])) as place:
    (place / "0").mkdir()
    (place / "0" / "slice.arrow").write_text("half")
    print("inside", flush=True)
    time.sleep(60)
"""
_ALL_MODULES = """
import importlib, pkgutil, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
import traceql
for module in pkgutil.walk_packages(traceql.__path__, "traceql."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print("imported")
"""


def started(code: str, *arguments: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_one_process_at_a_time_is_in_a_workspace_and_nothing_is_left(tmp_path: Path) -> None:
    processes = [started(_LOADS, tmp_path) for _ in range(4)]
    errors = [process.communicate()[1] for process in processes]
    assert errors == [""] * 4
    assert not names(tmp_path)


def test_what_a_killed_load_left_is_removed(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    process = started(_WAITS_INSIDE, database)
    assert process.stdout
    assert process.stdout.readline() == "inside\n"
    process.kill()
    process.communicate()
    assert names(tmp_path) == [".run.duckdb.loading", ".run.duckdb.loading.lock"]
    with workspace(database) as place:
        assert not names(place)
        assert names(place.parent) == [place.name]
    assert not names(tmp_path)


def test_processes_of_a_killed_load_do_not_write_into_the_next_one(tmp_path: Path) -> None:
    places = []
    for _ in range(2):
        with workspace(tmp_path / "run.duckdb") as place:
            places.append(place)
    assert places[0] != places[1]


def test_a_load_waits_for_one_of_another_thread(tmp_path: Path) -> None:
    order = []

    def load() -> None:
        with workspace(tmp_path / "run.duckdb"):
            order.append("second")

    with workspace(tmp_path / "run.duckdb"):
        second = threading.Thread(target=load)
        second.start()
        time.sleep(0.2)
        order.append("first")
    second.join()
    assert order == ["first", "second"]
    assert not names(tmp_path)


def test_a_failure_inside_a_workspace_frees_it(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), workspace(tmp_path / "run.duckdb"):
            _ = 1 / 0
    assert not names(tmp_path)


def test_a_workspace_needs_a_folder_that_exists(tmp_path: Path) -> None:
    with (
        pytest.raises(DatabaseError, match=r"cannot write in .*nowhere: No such file"),
        workspace(tmp_path / "nowhere" / "run.duckdb"),
    ):
        pass
    assert not names(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="has no folder in which nothing can be created")
def test_a_workspace_that_cannot_be_created_is_told() -> None:
    with (
        pytest.raises(DatabaseError, match="cannot write in /proc: "),
        workspace(Path("/proc/run.duckdb")),
    ):
        pass


def test_a_file_is_replaced_when_its_draft_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_whole(path, b"old")
    with whole_file(path) as draft:
        assert draft.parent == tmp_path
        draft.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_an_error_leaves_the_old_file_and_no_draft(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")

    def fails() -> None:
        with whole_file(path) as draft:
            draft.write_bytes(b"ne")
            raise error

    with pytest.raises(type(error)):
        fails()
    assert (names(tmp_path), path.read_bytes()) == (["report.html"], b"old")


def test_folders_and_databases_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "mine.duckdb").touch()
    (tmp_path / "renamed").write_bytes(bytes(8) + b"DUCK")
    for name, reason in (
        ("folder", "is a folder"), ("mine.duckdb", "is a database"), ("renamed", "is a database"),
    ):  # fmt: skip
        with pytest.raises(TraceqlError, match=reason):
            write_whole(tmp_path / name, b"new")
    assert names(tmp_path) == ["folder", "mine.duckdb", "renamed"]


@pytest.mark.skipif(sys.platform != "linux", reason="names the folder of Linux")
def test_the_cache_is_where_the_user_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert user_folders.cache_folder() == tmp_path / "home" / ".cache" / "traceql"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert user_folders.cache_folder() == tmp_path / "cache" / "traceql"


def test_without_a_home_directory_a_trace_needs_a_database_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> Path:
        raise RuntimeError("could not determine the home directory")

    (tmp_path / "rank0.json").write_text('{"traceEvents": []}')
    monkeypatch.setattr(user_folders, "user_cache_path", unknown)
    assert user_folders.cache_folder() is None
    with pytest.raises(TraceqlError, match="set XDG_CACHE_HOME"):
        cached_database([tmp_path / "rank0.json"], None)


@pytest.mark.slow
def test_every_module_can_be_imported_without_those_that_only_unix_has() -> None:
    process = started(_ALL_MODULES)
    assert process.communicate() == ("imported\n", "")
