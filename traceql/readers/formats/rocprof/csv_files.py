"""Reads the CSV files of rocprofv3 that are one recording."""

import codecs
import csv
import re
from pathlib import Path

import duckdb

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.formats.rocprof.forms import AGENTS, KINDS, STATISTICS, csv_files, is_utf16
from traceql.readers.scratch import Scratch
from traceql.readers.unpacked import REMAKE, pieces

_AS_WRITTEN = "load the file as rocprofv3 wrote it, not as a spreadsheet saved it"
_LOAD = "load the files *_trace.csv of the recording, or its results.db or results.json"
_NO_RECORDS = {
    AGENTS: f"lists the processors of a recording of rocprofv3, not what they did; {_LOAD}",
    STATISTICS: f"has sums by name (statistics of rocprofv3), not the events; {_LOAD}",
}
_TIMES = ("start_timestamp", "end_timestamp")
_FIRST = {"kind", "domain", "guid", "correlation_id", "node_id", "sample_timestamp"}
_PID = re.compile(r"(?:.*_)?(?P<pid>\d+)_[a-z_]+\.csv(?:\.gz)?$")
_SHOWN = 60
_BLOCK_BYTES = 4 << 20
_OPTIONS = (
    "auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', "
    "ignore_errors = true, nullstr = chr(0), parallel = false"
)


def fill_csv(path: Path, scratch: Scratch) -> None:
    """Reads all files of the recording that a file stands for.

    Raises:
        TraceCorrupt: one of them is damaged or was changed by another program.
        NotATrace: the file holds no records, and there are none beside it.
    """
    files = csv_files(path)
    if not set(files) & set(KINDS):
        raise NotATrace(_NO_RECORDS[AGENTS if AGENTS in files else STATISTICS])
    name = _PID.match(path.name)
    for number, (kind, file) in enumerate(files.items()):
        try:
            unread = _fill(scratch, number, kind, file)
        except TraceCorrupt as error:
            raise TraceCorrupt(f"{file.name}: {error}") from None
        except (duckdb.InvalidInputException, csv.Error) as error:
            raise TraceCorrupt(f"{file.name}: {str(error).splitlines()[0]}; {REMAKE}") from None
        values = [number, kind, file.name, name and int(name["pid"]), unread]
        scratch.con.execute("INSERT INTO csv_file VALUES ($1, $2, $3, $4, $5)", values)
    scratch.run(Path(__file__).with_name("csv.sql"))
    for changed, row, column, value in scratch.rows("FROM changed LIMIT 1"):
        raise TraceCorrupt(
            f"{changed}, row {row}: column {column} has the value {value[:_SHOWN]!r}, a number "
            f"that was rounded or written in another locale; {_AS_WRITTEN}"
        )
    scratch.run(Path(__file__).with_name("text.sql"))


def _fill(scratch: Scratch, number: int, kind: str, file: Path) -> int:
    """Adds the rows that fit the header; returns how many rows another parser finds beside them."""
    text = scratch.folder / "unpacked.csv"
    names = _unpacked(file, text)
    missing = [name for name in _TIMES if name not in names]
    may_have_none = kind == AGENTS or ("counter_name" in names and len(missing) == len(_TIMES))
    if missing and not may_have_none:
        raise TraceCorrupt(f"has no column {missing[0]}; {_AS_WRITTEN}")
    declared = scratch.rows("SELECT column_name FROM (DESCRIBE csv_row) OFFSET 2")
    known = ", ".join(name for (name,) in declared if name in names)
    ((found,),) = scratch.rows(
        f"INSERT INTO csv_row BY NAME SELECT {number} AS file, row_number() OVER () - 1 AS row, "
        f"{known} FROM read_csv($1, columns = $2, {_OPTIONS})",
        [str(text), dict.fromkeys(names, "VARCHAR")],
    )
    with text.open(encoding="utf-8", newline="") as opened:
        return abs(sum(1 for row in csv.reader(opened) if row) - 1 - int(found))


def _unpacked(file: Path, target: Path) -> list[str]:
    """Writes the text of a file to another; returns its columns, in lower case.

    Raises:
        TraceCorrupt: it is not UTF-8, has no header of rocprofv3, or ends within a line.
    """
    decoder, size, piece = codecs.getincrementaldecoder("utf-8")(), 0, b""
    names: list[str] = []
    with target.open("wb") as written:
        for piece in pieces(file, _BLOCK_BYTES):
            names = names or _names(piece.removeprefix(codecs.BOM_UTF8))
            try:
                decoder.decode(piece)
            except UnicodeDecodeError as error:
                place = size - len(error.object) + len(piece) + error.start
                raise TraceCorrupt(f"is not UTF-8 at byte {place:,}; {REMAKE}") from None
            size += written.write(piece)
    if not names:
        raise TraceCorrupt(f"empty file; {REMAKE}")
    if not piece.endswith(b"\n"):
        raise TraceCorrupt(f"ends within a line; {REMAKE}")
    return names


def _names(text: bytes) -> list[str]:
    """The columns of a file by its beginning."""
    if not text.strip():
        raise TraceCorrupt(f"empty file; {REMAKE}")
    if is_utf16(text):
        raise TraceCorrupt(f"is UTF-16, not UTF-8; {_AS_WRITTEN}")
    lines = [line.decode(errors="replace") for line in text.split(b"\n", 100)]
    headers = [number for number, line in enumerate(lines, 1) if _is_header(line)]
    if any(_is_header(lines[0], separator) for separator in ";\t"):
        raise TraceCorrupt(f"its columns are not separated by commas; {_AS_WRITTEN}")
    if not headers:
        begin = lines[0][:_SHOWN]
        raise TraceCorrupt(f"begins with {begin!r}, expected a header of rocprofv3; {REMAKE}")
    if headers[0] > 1:
        raise TraceCorrupt(
            f"its header is in line {headers[0]}, after other text, such as what the program "
            "printed; remove what is before it"
        )
    if len(lines) == 1:
        raise TraceCorrupt(f"ends in its header; {REMAKE}")
    (listed,) = csv.reader([lines[0].strip()])
    names = [name.strip().lower() for name in listed]
    for name in names:
        if names.count(name) > 1:
            raise TraceCorrupt(f"has the column {name[:_SHOWN]!r} twice; {_AS_WRITTEN}")
    return names


def _is_header(line: str, separator: str = ",") -> bool:
    cells = [cell.strip().strip('"').lower() for cell in line.split(separator)]
    return len(cells) > 1 and cells[0] in _FIRST
