"""A folder beside a database in which the next version of it is made, or nothing is left."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traceql.errors import DatabaseError

_NAME = ".{database}.loading-{pid}"
_PID = re.compile(r"\.loading-(\d+)$")


@contextmanager
def workspace(database: Path) -> Iterator[Path]:
    """An empty folder beside `database`, removed at the end whatever happens.

    Folders of loads that were killed are removed too.

    Raises:
        DatabaseError: the place cannot be written.
    """
    if database.is_dir():
        raise DatabaseError(f"{database} is a folder; name a file with -o")
    folder = database.parent / _NAME.format(database=database.name, pid=os.getpid())
    _remove_abandoned(database)
    try:
        folder.mkdir()
    except OSError as error:
        raise DatabaseError(
            f"cannot write in {database.parent}: {error.strerror}; choose another place with -o"
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(database: Path) -> None:
    for folder in database.parent.glob(_NAME.format(database=database.name, pid="*")):
        found = _PID.search(folder.name)
        if found and not _alive(int(found[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
