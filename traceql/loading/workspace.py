"""The folder in which a load prepares the new version of a database."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp

from traceql.errors import DatabaseError
from traceql.files import path_text
from traceql.locks import locked


@contextmanager
def workspace(database: Path) -> Iterator[Path]:
    """An empty folder on the file system of `database`, which is removed at the end in any case.

    Only one load of a database at a time gets one. Another load waits, and then finds the database
    that the first has written. Files that a killed load left behind are removed.

    Raises:
        DatabaseError: `database` is a folder, its path is not UTF-8, or files cannot be created
            beside it.
    """
    if (shown := path_text(database)) != str(database):
        raise DatabaseError(f"{shown}: the path is not UTF-8; choose another place with -o")
    if database.is_dir():
        raise DatabaseError(f"{database} is a folder; name a file with -o")
    folder = database.with_name(f".{database.name}.loading")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder.with_name(f"{folder.name}.lock")))
            shutil.rmtree(folder, ignore_errors=True)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            folder.mkdir(exist_ok=True)
            # A new name each time: processes of a killed load may still write where they began.
            place = Path(mkdtemp(dir=folder))
        except OSError as error:
            raise DatabaseError(
                f"cannot write in {database.parent}: {error.strerror or error}; "
                "choose another place with -o"
            ) from None
        yield place
