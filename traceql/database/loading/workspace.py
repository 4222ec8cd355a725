"""The folder in which a load prepares the new version of a database."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from traceql.errors import DatabaseError
from traceql.util.drafts import draft_folder
from traceql.util.files import is_device, path_text, target_of
from traceql.util.locks import locked


@contextmanager
def workspace(database: Path) -> Iterator[Path]:
    """An empty folder on the file system of `database`, which is removed at the end in any case.

    Only one load of a database at a time gets one. Another load waits, and then finds the database
    that the first has written.

    Raises:
        DatabaseError: `database` is a folder or a device, its path is not UTF-8, or files cannot be
            created beside it.
    """
    if (shown := path_text(database)) != str(database):
        raise DatabaseError(f"{shown}: the path is not UTF-8; choose another place with -o")
    if database.is_dir():
        raise DatabaseError(f"{database} is a folder; name a file with -o")
    if is_device(database):
        raise DatabaseError(f"{database} is not a file; name a file with -o")
    with ExitStack() as stack:
        try:
            target = target_of(database)
            stack.enter_context(locked(target.with_name(f".{target.name}.loading.lock")))
            folder = stack.enter_context(draft_folder(target.parent))
        except OSError as error:
            raise DatabaseError(
                f"cannot write in {database.parent}: {error.strerror or error}; "
                "choose another place with -o"
            ) from None
        yield folder
