"""Folders for drafts: what is written there moves to its place when it is complete."""

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

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
        _remove(folder)


def _remove(folder: Path) -> None:
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
