"""Files that appear when they are complete."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from traceql.errors import TraceqlError


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, or leaves what was there.

    Raises:
        TraceqlError: it would take the place of a database, or the folder does not exist or cannot
            be written to.
    """
    if path.is_file() and is_database(path):
        raise TraceqlError(f"{path} is a database; name another file with -o")
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            unfinished = Path(file.name)
            try:
                file.write(content)
                file.flush()
                unfinished.chmod(0o666 & ~_umask())
                unfinished.replace(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise TraceqlError(f"cannot write {path}: {error.strerror}") from None


def is_database(path: Path) -> bool:
    """By its name, or by how a DuckDB file begins."""
    if path.suffix in (".duckdb", ".db"):
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
