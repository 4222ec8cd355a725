"""Reads the small files that a user gives beside traces."""

from pathlib import Path


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
