"""Reads small files of the user; writes files that appear when complete, or not at all."""

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
_LOCK = "lock"  # locked as long as the process that made the folder lives
# How long a reader that is ending may still write into the folder, s.
_LAST_WRITES = 1.0
# How old a folder without a mark is before the process that was to mark it counts as killed, s.
_TO_MARK = 60.0


@contextmanager
def draft_folder(place: Path) -> Iterator[Path]:
    """An empty folder inside `place` that only this user can enter; it is removed at the end.

    Folders that killed processes left in `place` are removed first. They are known by the mark in
    them; links are not followed. Without a mark, a folder goes if nothing was written there for a
    minute and it is empty: its process was killed before it made the mark, or after it removed it.

    Raises:
        OSError: the folder cannot be created.
    """
    from filelock import FileLock  # takes 50 ms to import, and most commands write no file

    _remove_left_ones(place)
    folder = place / f"{_PREFIX}{token_hex(8)}"
    try:  # from before the folder exists: Ctrl-C may come right after
        folder.mkdir(mode=0o700)
        with FileLock(folder / _LOCK):
            (folder / _INSIDE).mkdir()
            (folder / _MARK).write_text(_MARK_TEXT)  # last: a folder with a mark is locked
            yield folder / _INSIDE
    finally:
        _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    until = time.monotonic() + _LAST_WRITES
    _remove_now(folder)
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.01)
        _remove_now(folder)


def _remove_now(folder: Path) -> None:
    """The mark last: a folder that is not removed completely is still known by it."""
    shutil.rmtree(folder / _INSIDE, ignore_errors=True)
    if not (folder / _INSIDE).exists():  # else a reader that is ending wrote there meanwhile
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left_ones(place: Path) -> None:
    from filelock import FileLock

    for folder in place.iterdir():
        if folder.name.startswith(_PREFIX) and (_is_ours(folder) or _is_unmarked(folder)):
            # Filelock's Timeout, an OSError, says that the process which made the folder lives.
            with suppress(OSError), FileLock(folder / _LOCK, blocking=False):
                _remove_now(folder)


def _is_unmarked(folder: Path) -> bool:
    """Whether a folder of ours has no mark, is not new, and nothing was written into it."""
    try:
        if not _NAME.fullmatch(folder.name) or folder.is_symlink():
            return False
        found = {path.name: path.lstat() for path in folder.iterdir()}
        if found.pop(_INSIDE, None) and any((folder / _INSIDE).iterdir()):
            return False
        is_empty = all(_is_empty_file(name, status) for name, status in found.items())
        return is_empty and time.time() - folder.stat().st_mtime > _TO_MARK
    except OSError:
        return False


def _is_empty_file(name: str, status: os.stat_result) -> bool:
    return name in (_LOCK, _MARK) and stat.S_ISREG(status.st_mode) and not status.st_size


def _is_ours(folder: Path) -> bool:
    mark = folder / _MARK
    try:
        if folder.is_symlink() or not stat.S_ISREG(mark.lstat().st_mode):
            return False
        return mark.stat().st_size == len(_MARK_TEXT) and mark.read_text() == _MARK_TEXT
    except (OSError, ValueError):
        return False


class Unusable(ValueError):
    """A file cannot be used. The message says why in one line, without the name of the file."""


def content(path: Path) -> bytes:
    """The bytes of a regular file; a pipe or a device is refused, because it may never end.

    Raises:
        Unusable: it cannot be read.
    """
    try:
        if path.exists() and not path.is_file():
            raise Unusable("not a regular file")
        return path.read_bytes()
    except OSError as error:
        raise Unusable(error.strerror or str(error)) from None


def text(path: Path) -> str:
    """The text of a regular file, which is UTF-8, with or without a byte order mark.

    Raises:
        Unusable: it cannot be read, or is not UTF-8.
    """
    try:
        return content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable(f"byte {error.start} is not UTF-8") from None


_SQLITE = b"SQLite format 3\0"


@contextmanager
def whole_file(
    path: Path, *, draft: Path | None = None, may_replace_database: bool = False
) -> Iterator[Path]:
    """Replaces `path` with a draft that the block writes.

    Yields the path of the draft, which does not exist yet. After an error in the block the draft is
    removed, and `path` stays as it was. If `path` is a symbolic link, its target is replaced. The
    new file has the mode of the old one and, if this user may give it away, its owner. A device or
    a pipe is not replaced; the block writes into it.

    Args:
        draft: where to write the draft, on the file system of `path`. By default it is in a hidden
            folder beside `path`.

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
        target = target_of(path)
        with ExitStack() as stack:
            if draft is None:
                draft = stack.enter_context(draft_folder(target.parent)) / target.name
            stack.callback(_remove, draft)
            yield draft
            if target.exists():
                _keep_owner_and_mode(target, draft)
            draft.replace(target)
    except OSError as error:
        raise TraceqlError(f"cannot write {path}: {error.strerror or error}") from None


def write_whole(path: Path, content: bytes) -> None:
    """Replaces `path` with these bytes; see `whole_file`."""
    with whole_file(path) as draft:
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
                written = whole_file(path, draft=None if path.is_symlink() else drafts / name)
                replacements.enter_context(written).write_bytes(content)
    except OSError as error:
        raise TraceqlError(f"cannot write into {folder}: {error.strerror or error}") from None
    finally:
        if made:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def target_of(path: Path) -> Path:
    """The absolute path of the file that is written when `path` is, which may be a symbolic link.

    Raises:
        OSError: `path` is a symbolic link that leads back to itself.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def is_device(path: Path) -> bool:
    """Whether this is neither a file nor a folder: a device such as /dev/null, a pipe, a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def is_database(path: Path) -> bool:
    """Whether the first bytes of a file are those of a DuckDB database, or else its name.

    Profilers write SQLite files of the same names.
    """
    has_name = path.suffix in (".duckdb", ".db")
    if not path.is_file():
        return has_name
    with path.open("rb") as file:
        head = file.read(16)
    return head[8:12] == b"DUCK" or (has_name and not (head and _SQLITE.startswith(head)))


def is_sqlite(path: Path) -> bool:
    """Whether a file begins like an SQLite database, also if nearly all of it was cut off."""
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


def _remove(draft: Path) -> None:
    with suppress(OSError):
        draft.unlink(missing_ok=True)


def path_text(path: Path) -> str:
    """The path; its bytes that are not UTF-8, which a database cannot hold, are spelled out."""
    return os.fsencode(path).decode(errors="backslashreplace")


def size_and_time(file: Path) -> tuple[int, int] | None:
    """What changes when a file is written: its size, bytes, and its time, ns.

    None if there is no such file, or if nobody may look.
    """
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
