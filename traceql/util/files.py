"""Reads small files of the user; writes files atomically."""

import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from traceql.errors import TraceqlError

_PREFIX = ".traceql-"
_NAME = re.compile(r"\.traceql-[0-9a-f]{16}")
_MARK = "mark"
_MARK_TEXT = "A folder for drafts of traceql. It may be removed unless the file lock is locked.\n"
_INSIDE = "drafts"
_LOCK = "lock"  # locked while the process that created the folder runs
_LAST_WRITES_S = 1.0  # during which a reader that is ending may still write into the folder
_UNMARKED_S = 60.0  # after which the process of a folder without a mark counts as killed


@contextmanager
def draft_folder(parent: Path) -> Iterator[Path]:
    """A new private folder inside `parent`, which is removed at the end.

    Folders of killed processes in `parent` are removed first. They are recognized by a mark in
    them; links are not followed. A folder without a mark is removed if it is empty and a minute
    old: its process was killed before it wrote the mark, or after it removed it.

    Raises:
        OSError: the folder cannot be created.
    """
    from filelock import FileLock  # takes 50 ms to import, and most commands write no file

    for old in parent.iterdir():
        if old.name.startswith(_PREFIX) and (_is_marked(old) or _is_unmarked_remnant(old)):
            # Filelock raises Timeout, an OSError, if the process of the folder still runs.
            with suppress(OSError), FileLock(old / _LOCK, blocking=False):
                _remove_now(old)
    folder = parent / f"{_PREFIX}{token_hex(8)}"
    try:  # before the folder exists: Ctrl-C may come right after
        folder.mkdir(mode=0o700)
        with FileLock(folder / _LOCK):
            (folder / _INSIDE).mkdir()
            (folder / _MARK).write_text(_MARK_TEXT)  # last: a folder with a mark is locked
            yield folder / _INSIDE
    finally:
        until = time.monotonic() + _LAST_WRITES_S
        _remove_now(folder)
        while folder.exists() and time.monotonic() < until:
            time.sleep(0.01)
            _remove_now(folder)


def _remove_now(folder: Path) -> None:
    """Removes the mark last: a folder that is not removed completely is still recognized."""
    shutil.rmtree(folder / _INSIDE, ignore_errors=True)
    if not (folder / _INSIDE).exists():  # otherwise a reader that is ending has just written there
        shutil.rmtree(folder, ignore_errors=True)


def _is_unmarked_remnant(folder: Path) -> bool:
    """Whether a draft folder has no mark, is not new, and has no content."""
    try:
        if not _NAME.fullmatch(folder.name) or folder.is_symlink():
            return False
        found = {path.name: path.lstat() for path in folder.iterdir()}
        if found.pop(_INSIDE, None) and any((folder / _INSIDE).iterdir()):
            return False
        is_empty = all(
            name in (_LOCK, _MARK) and stat.S_ISREG(status.st_mode) and not status.st_size
            for name, status in found.items()
        )
        return is_empty and time.time() - folder.stat().st_mtime > _UNMARKED_S
    except OSError:
        return False


def _is_marked(folder: Path) -> bool:
    mark = folder / _MARK
    try:
        if folder.is_symlink() or not stat.S_ISREG(mark.lstat().st_mode):
            return False
        return mark.stat().st_size == len(_MARK_TEXT) and mark.read_text() == _MARK_TEXT
    except (OSError, ValueError):
        return False


class Unusable(ValueError):
    """A file cannot be used; the message is one line without the name of the file."""


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file; raises Unusable for others: a pipe or a device may never end."""
    try:
        if path.exists() and not path.is_file():
            raise Unusable("not a regular file")
        return path.read_bytes()
    except OSError as error:
        raise Unusable(error.strerror or str(error)) from None


def read_text(path: Path) -> str:
    """The text of a regular file in UTF-8, without its byte order mark; raises Unusable."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable(f"byte {error.start} is not UTF-8") from None


_SQLITE = b"SQLite format 3\0"


@contextmanager
def atomic_write(
    path: Path, *, draft: Path | None = None, may_replace_database: bool = False
) -> Iterator[Path]:
    """Yields the path of a draft, which replaces `path` after the block.

    An error in the block removes the draft and leaves `path` unchanged. If `path` is a symbolic
    link, its target is replaced. The new file has the mode of the old one and, if this user may
    change it, its owner. A device or a pipe is not replaced; the block writes into it.

    Args:
        draft: where to write the draft, on the file system of `path`; by default in a hidden folder
            beside `path`.

    Raises:
        TraceqlError: `path` is a folder or a database, or it cannot be written.
    """
    try:
        if path.is_dir():
            raise TraceqlError(f"{path} is a folder; name a file with -o")
        if not may_replace_database and path.is_file() and (is_database(path) or is_sqlite(path)):
            raise TraceqlError(f"{path} is a database; name another file with -o")
        if is_device(path):
            yield path
            return
        target = resolved_target(path)
        with ExitStack() as stack:
            if draft is None:
                draft = stack.enter_context(draft_folder(target.parent)) / target.name
            stack.callback(_remove_file, draft)
            yield draft
            if target.exists():
                _keep_owner_and_mode(target, draft)
            draft.replace(target)
    except OSError as error:
        raise TraceqlError(f"cannot write {path}: {error.strerror or error}") from None


def replace_file(path: Path, content: bytes) -> None:
    """Replaces `path` with these bytes; see `atomic_write`."""
    with atomic_write(path) as draft:
        draft.write_bytes(content)


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replaces files of a folder, which is created if it does not exist.

    Args:
        contents: by the names of the files.

    Raises:
        TraceqlError: a file cannot be written; then none of them was changed.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with draft_folder(folder) as drafts, ExitStack() as replacements:
            for name, content in contents.items():
                path = folder / name
                # The target of a link may be on another file system.
                written = atomic_write(path, draft=None if path.is_symlink() else drafts / name)
                replacements.enter_context(written).write_bytes(content)
    except OSError as error:
        raise TraceqlError(f"cannot write into {folder}: {error.strerror or error}") from None
    finally:
        if made:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def resolved_target(path: Path) -> Path:
    """The absolute path without symbolic links; raises OSError if a link leads back to itself."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def is_device(path: Path) -> bool:
    """Whether this is neither a file nor a folder but a device, a pipe or a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def is_database(path: Path) -> bool:
    """Whether the first bytes, or else the name, of a file are those of a DuckDB database.

    Profilers write SQLite files with the same names.
    """
    has_name = path.suffix in (".duckdb", ".db")
    if not path.is_file():
        return has_name
    with path.open("rb") as file:
        head = file.read(16)
    return head[8:12] == b"DUCK" or (has_name and not (head and _SQLITE.startswith(head)))


def is_sqlite(path: Path) -> bool:
    """Whether a file begins like an SQLite database, even if only its first bytes are left."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(len(_SQLITE))
    return bool(head) and _SQLITE.startswith(head)


def _keep_owner_and_mode(old: Path, new: Path) -> None:
    status = old.stat()
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(new, status.st_uid, status.st_gid)
    shutil.copymode(old, new)  # after the owner, because a change of owner may clear bits


def _remove_file(draft: Path) -> None:
    with suppress(OSError):
        draft.unlink(missing_ok=True)


def path_text(path: Path) -> str:
    """The path; bytes that are not UTF-8, which a database cannot store, are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def size_and_mtime(file: Path) -> tuple[int, int] | None:
    """Size in bytes and modification time in ns; None if the file is missing or inaccessible."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
