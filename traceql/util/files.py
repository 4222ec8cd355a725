"""Writes files so that they appear when complete, or not at all; tells whether one was written."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from traceql.errors import TraceqlError
from traceql.util.drafts import draft_folder

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
