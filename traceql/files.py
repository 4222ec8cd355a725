"""Writes files so that they appear when they are complete, or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from traceql.errors import TraceqlError


@contextmanager
def whole_file(
    path: Path, *, draft: Path | None = None, may_replace_database: bool = False
) -> Iterator[Path]:
    """Replaces `path` with a draft that the block writes.

    Yields the path of the draft, which does not exist yet. After an error in the block the draft is
    removed, and `path` stays as it was.

    Args:
        draft: where to write the draft, on the file system of `path`. By default it is a hidden
            file beside `path`.

    Raises:
        TraceqlError: `path` is a folder or a database, or it cannot be written.
    """
    draft = draft or path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        if path.is_dir():
            raise TraceqlError(f"{path} is a folder; name a file with -o")
        if not may_replace_database and path.is_file() and is_database(path):
            raise TraceqlError(f"{path} is a database; name another file with -o")
        yield draft
        draft.replace(path)
    except OSError as error:
        raise TraceqlError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Replaces `path` with these bytes; see `whole_file`."""
    with whole_file(path) as draft:
        draft.write_bytes(content)


def is_database(path: Path) -> bool:
    """Whether the name of a file, or its first bytes, are those of a DuckDB database."""
    if path.suffix in (".duckdb", ".db"):
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def path_text(path: Path) -> str:
    """The path; its bytes that are not UTF-8, which a database cannot hold, are spelled out."""
    return os.fsencode(path).decode(errors="backslashreplace")
