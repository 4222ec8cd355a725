"""Makes an SQLite file of a report of Nsight Systems, with the tool itself, or of Parquet files."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from traceql.errors import TraceCorrupt
from traceql.readers.formats.nsys.parquet_layout import is_part
from traceql.readers.shown import shown

_REPORT = ".nsys-rep"


@contextmanager
def converted(path: Path) -> Iterator[Path]:
    """The path of an SQLite file: of this file, or of what is made of a report or a folder.

    Raises:
        TraceCorrupt: the tool is not installed, or something cannot be read.
    """
    if is_part(path):
        from traceql.readers.formats.nsys.parquet_folder import write_sqlite

        with TemporaryDirectory(prefix="traceql-nsys-") as scratch:
            written = Path(scratch) / "export.sqlite"
            write_sqlite(path.parent, written)
            yield written
        return
    if not path.name.endswith(_REPORT):
        yield path
        return
    tool = shutil.which("nsys")
    if tool is None:
        raise TraceCorrupt(
            "a report of Nsight Systems, which only nsys can read, and it is not on PATH; where it "
            f"is installed, run nsys export --type sqlite {path.name}, and load the .sqlite file"
        )
    with TemporaryDirectory(prefix="traceql-nsys-") as folder:
        made = Path(folder) / "export.sqlite"
        command = [
            tool,
            "export",
            "--type",
            "sqlite",
            "--include-blobs=true",
            "-o",
            str(made),
            str(path),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode or not made.exists():
            said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise TraceCorrupt(f"nsys export failed ({shown(said[-1])})")
        yield made
