"""Files that appear when they are complete."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from traceql.errors import TraceqlError


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, or leaves what was there.

    Raises:
        TraceqlError: the folder does not exist or cannot be written to.
    """
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
