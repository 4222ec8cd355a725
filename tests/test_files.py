"""Files that are complete or absent, locks between processes, and folders of the user."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from traceql.database.cache import cached_database
from traceql.database.loading.draft import workspace
from traceql.errors import DatabaseError, TraceqlError
from traceql.util import resources
from traceql.util.files import atomic_write, replace_file, write_folder

# What a load does as far as others can see: it fails if another one is in the workspace.
_LOADS = """
import sys, time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceql.database.loading.draft import workspace

folder = Path(sys.argv[1])
for _ in range(15):
    with workspace(folder / "run.duckdb") as place:
        assert not list(place.iterdir())
        (folder / "inside").touch(exist_ok=False)
        (place / "0").mkdir()
        (place / "0" / "slice.000000.arrow").touch()
        time.sleep(0.002)
        (folder / "inside").unlink()
"""
_WAITS_INSIDE = """
import sys, time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceql.database.loading.draft import workspace

with workspace(Path(sys.argv[1])) as place:
    (place / "0").mkdir()
    (place / "0" / "slice.000000.arrow").write_text("half")
    print("inside", flush=True)
    time.sleep(60)
"""
_ALL_MODULES = """
import importlib, pkgutil, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
import traceql
for module in pkgutil.walk_packages(traceql.__path__, "traceql."):
    # The SDK of MCP imports fcntl on every system but Windows, whether or not Python has it.
    if not module.name.endswith("__main__") and not module.name.startswith("traceql.present.mcp."):
        importlib.import_module(module.name)
print("imported")
"""


def started(code: str, *arguments: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextmanager
def killed_load(database: Path) -> Iterator[None]:
    """A load that is inside its workspace, and is killed at the end."""
    process = started(_WAITS_INSIDE, database)
    assert process.stdout
    assert process.stdout.readline() == "inside\n"
    yield
    process.kill()
    process.communicate()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_one_process_at_a_time_is_in_a_workspace_and_nothing_is_left(tmp_path: Path) -> None:
    processes = [started(_LOADS, tmp_path) for _ in range(4)]
    errors = [process.communicate()[1] for process in processes]
    assert errors == [""] * 4
    assert not names(tmp_path)


def test_what_a_killed_load_left_is_removed(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    with killed_load(database), workspace(tmp_path / "other.duckdb"):
        assert len(list(tmp_path.glob(".traceql-*"))) == 2  # the living one keeps its folder
    (left,) = tmp_path.glob(".traceql-*")
    assert names(tmp_path) == [".run.duckdb.loading.lock", left.name]
    with workspace(database) as place:
        assert not names(place)
        assert not left.exists()
    assert not names(tmp_path)


@pytest.mark.parametrize("made_by", ["a user", "a link to a folder that a killed load left"])
def test_only_folders_that_were_made_here_are_removed(tmp_path: Path, made_by: str) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    if made_by == "a user":
        folder = tmp_path / ".traceql-abcdefgh"
        folder.mkdir()
    else:
        with killed_load(kept / "run.duckdb"):
            pass
        (left,) = kept.glob(".traceql-*")
        folder = tmp_path / left.name
        folder.symlink_to(left)
    (folder / "mine.txt").write_text("mine")
    for at in (".run.duckdb.loading", "run.duckdb.loading"):
        (tmp_path / at).mkdir()
        (tmp_path / at / "mine.txt").write_text("mine")
    replace_file(tmp_path / "report.html", b"new")
    with workspace(tmp_path / "run.duckdb"):
        pass
    assert [path.read_text() for path in tmp_path.rglob("mine.txt")] == ["mine"] * 3


def test_a_users_file_in_place_of_a_lock_stays(tmp_path: Path) -> None:
    lock = tmp_path / ".run.duckdb.loading.lock"
    lock.write_text("mine")
    database = tmp_path / "run.duckdb"
    error = r"\.lock is in the way and not a lock; rename it"
    with pytest.raises(DatabaseError, match=error), workspace(database):
        pass
    assert lock.read_text() == "mine"
    lock.unlink()
    (tmp_path / "mine").touch()
    lock.symlink_to(tmp_path / "mine")
    with pytest.raises(DatabaseError, match="cannot write in"), workspace(database):
        pass
    assert names(tmp_path) == [lock.name, "mine"]


def test_a_file_is_replaced_when_its_draft_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    replace_file(path, b"old")
    with atomic_write(path) as draft:
        assert draft.name == path.name
        draft.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode
    assert names(tmp_path) == ["other", "report.html"]


def test_a_replaced_file_keeps_its_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    path.chmod(0o640)
    is_root = os.name == "posix" and os.getuid() == 0
    if is_root:
        os.chown(path, 54_321, 54_321)
    replace_file(path, b"new")
    status = path.stat()
    assert (path.read_bytes(), stat.S_IMODE(status.st_mode)) == (b"new", 0o640)
    if is_root:
        assert (status.st_uid, status.st_gid) == (54_321, 54_321)


def test_the_target_of_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere" / "report.html", tmp_path / "report.html"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in (b"first", b"second"):  # the target does not exist before the first
        replace_file(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert names(target.parent) == ["report.html"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_devices_and_pipes_are_written_to_and_stay(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    replace_file(pipe, b"new")
    reader.join()
    replace_file(Path(os.devnull), b"new")
    assert read == [b"new"]
    assert pipe.is_fifo()
    assert names(tmp_path) == ["pipe"]
    assert not Path(os.devnull).is_file()
    for place in (pipe, Path(os.devnull)):
        with pytest.raises(DatabaseError, match="is not a file; name a file"), workspace(place):
            pass


def test_an_interrupt_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as draft:  # noqa: PT012
        draft.write_bytes(b"ne")
        raise KeyboardInterrupt
    assert (names(tmp_path), path.read_bytes()) == (["report.html"], b"old")


def test_files_of_a_folder_are_replaced_together_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "report"
    (tmp_path / "report" / "b").mkdir(parents=True)  # a folder is in the way
    (tmp_path / "report" / "a").write_bytes(b"old")
    for place in (folder, tmp_path / "report"):
        files = {"a": b"new", "b" if place != folder else "x/y": b"new"}
        with pytest.raises(TraceqlError):
            write_folder(place, files)
    assert not folder.exists()
    assert names(tmp_path / "report") == ["a", "b"]
    assert (tmp_path / "report" / "a").read_bytes() == b"old"
    write_folder(folder, {"a": b"1", "c": b"2"})
    write_folder(folder, {"a": b"3"})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a": b"3", "c": b"2"}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of a user without a home directory."""

    def unknown(*_: object, **__: object) -> Path:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr(resources, "user_cache_path", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_without_a_home_directory_the_cache_is_temporary(temporary: Path) -> None:
    folder = resources.cache_folder()
    assert folder is not None
    assert folder.parent == temporary
    assert folder == resources.cache_folder()
    (temporary / "rank0.json").write_text('{"traceEvents": []}')
    assert cached_database([temporary / "rank0.json"], None).is_relative_to(folder)


@pytest.mark.skipif(os.name != "posix", reason="needs modes of folders")
@pytest.mark.parametrize("squatter", ["open to others", "of another user", "a link", "a file"])
def test_a_temporary_cache_that_others_can_write_is_not_used(
    temporary: Path, squatter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resources.cache_folder()
    assert folder is not None
    if squatter == "open to others":
        folder.chmod(0o777)
    elif squatter == "of another user":
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        folder.rename(temporary / f"traceql-{other}")
    else:
        folder.rename(temporary / "elsewhere")
        if squatter == "a link":
            folder.symlink_to(temporary / "elsewhere")
        else:
            folder.touch()
    assert resources.cache_folder() is None
    (temporary / "rank0.json").write_text('{"traceEvents": []}')
    with pytest.raises(TraceqlError, match="set XDG_CACHE_HOME"):
        cached_database([temporary / "rank0.json"], None)


@pytest.mark.slow
def test_every_module_can_be_imported_without_those_that_only_unix_has() -> None:
    process = started(_ALL_MODULES)
    assert process.communicate() == ("imported\n", "")
