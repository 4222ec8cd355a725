"""Where a lake is kept: files that appear complete or not at all, and locks between writers.

All names are relative to the lake, with `/` between their parts.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import duckdb


class Store(Protocol):
    """The files of a lake.

    Attributes:
        place: the lake as the user named it, for messages.
    """

    place: str

    def names(self, folder: str) -> list[str]:
        """The files in a folder at any depth, sorted; none if there is no such folder."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of a file.

        Raises:
            OSError: there is no such file, or it cannot be read.
        """
        ...

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if there is none."""
        ...

    def sha256(self, name: str) -> str:
        """The SHA-256 of a file, hexadecimal."""
        ...

    def put(self, draft: Path, name: str) -> None:
        """Moves a complete local file into the lake; it replaces a file of the same name."""
        ...

    def remove(self, name: str) -> None:
        """Removes a file, and its folder if that is empty then; nothing if there is none."""
        ...

    def is_settled(self, name: str) -> bool:
        """Whether nobody can be writing a file that no run names, if its lock is held here."""
        ...

    def url(self, name: str) -> str:
        """The file as SQL names it."""
        ...

    def drafts(self) -> AbstractContextManager[Path]:
        """An empty local folder, from which files are put; it is removed at the end."""
        ...

    def locked(self, key: str) -> AbstractContextManager[None]:
        """Holds a lock between processes, and waits for it."""
        ...

    def is_locked(self, key: str) -> bool:
        """Whether another process or thread holds the lock."""
        ...

    def connect(self, con: duckdb.DuckDBPyConnection) -> None:
        """Lets a connection read the files of this lake."""
        ...

    def confine(self, con: duckdb.DuckDBPyConnection) -> None:
        """Lets a connection read the files of this lake and nothing else, for good."""
        ...


def put_bytes(store: Store, name: str, content: bytes) -> None:
    """Puts a small file; it replaces a file of the same name."""
    with store.drafts() as folder:
        draft = folder / "small"
        draft.write_bytes(content)
        store.put(draft, name)
