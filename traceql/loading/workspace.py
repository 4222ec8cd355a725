"""The folder in which a load prepares the new version of a database."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from traceql.errors import DatabaseError
from traceql.locks import locked


@contextmanager
def workspace(database: Path) -> Iterator[Path]:
    """An empty folder beside `database`, which is removed at the end in any case.

    Only one load at a time can use it. Another one waits, and then finds the database that the
    first has written. Files that a killed load left in the folder are removed.

    Raises:
        DatabaseError: `database` is a folder, or files cannot be created beside it.
    """
    if database.is_dir():
        raise DatabaseError(f"{database} is a folder; name a file with -o")
    folder = database.with_name(f".{database.name}.loading")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder.with_name(f"{folder.name}.lock")))
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        except OSError as error:
            raise DatabaseError(
                f"cannot write in {database.parent}: {error.strerror or error}; "
                "choose another place with -o"
            ) from None
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder
