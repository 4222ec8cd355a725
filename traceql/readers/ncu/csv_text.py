"""Recognizes files of Nsight Compute, and finds its CSV in the output of a program."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from traceql.util.files import Unusable, read_bytes

_HEADER = re.compile(
    rb'^"(?:ID|Process ID)","Process (?:ID|Name)",.*"Kernel Name".*$', re.MULTILINE
)
# The header as a spreadsheet or another program saves it.
_SAVED_AGAIN = re.compile(
    rb"^\"?(?:ID|Process ID)\"?([,;\t])\"?Process (?:ID|Name)\"?\1.*Kernel Name.*$", re.MULTILINE
)
_ROW = re.compile(r'"\d*",')
_TOOL = re.compile(rb"^==(?:PROF|WARNING|ERROR)== .*$", re.MULTILINE)
_VALUE = "Metric Value"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_GZIP_FORMAT = 31  # of zlib's parameter wbits
_AGAIN = "print the profile again with ncu -i REPORT.ncu-rep --csv --page raw"
_FIRST_COLUMNS = ("ID", "Process ID")
_SUMMARY = {"Minimum", "Maximum", "Average"}
_LETTERS = 160  # quoted of the tool's output
_READ_BYTES = 1 << 16
# Other files are only searched for the header in their first bytes.
_TEXTS = (".csv", ".csv.gz", ".txt", ".log")


@dataclass
class CsvText:
    """The cells of a CSV."""

    header: list[str]  # names of columns
    lines: list[str]
    page: int = 0  # of the last row: an appended file repeats the header, and counts from 0 again
    others: int = 0  # lines between the rows, such as the program's output
    damaged: int = 0  # lines that begin like a row, but are damaged

    def rows(self) -> Iterator[list[str]]:
        """The rows below the header. Cells of ncu have no line breaks.

        Raises:
            Unusable: the last line is cut off, or a page with other columns follows.
        """
        self.page = self.others = self.damaged = 0
        last = len(self.lines) - 1
        # Rows of metrics have only one column of rules, which is empty.
        least = self.header.index(_VALUE) + 1 if _VALUE in self.header else len(self.header)
        for number, line in enumerate(self.lines):
            row = _cells(line) if line.startswith('"') else None
            if row and row[0] in _FIRST_COLUMNS and "Kernel Name" in row:
                if row != self.header:
                    raise Unusable(
                        "it has profiles with different columns, one after the other; put each "
                        "into a file of its own"
                    )
                self.page += 1
            elif row is None or not least <= len(row) <= len(self.header):
                if number == last and line.startswith('"'):
                    raise Unusable(f"its last line is cut off; copy the file again, or {_AGAIN}")
                is_damaged = _ROW.match(line) is not None
                self.damaged += is_damaged
                self.others += not is_damaged
            else:
                yield row + [""] * (len(self.header) - len(row))


def is_csv(path: Path) -> bool:
    """Whether a file has output of Nsight Compute, readable or not."""
    try:
        with path.open("rb") as opened:
            head = opened.read(_READ_BYTES)
        if head.startswith(_GZIP):
            head = zlib.decompressobj(_GZIP_FORMAT).decompress(head, _READ_BYTES)
    except (OSError, zlib.error):
        return False
    if _is_output(head):
        return True
    if not path.name.lower().endswith(_TEXTS):
        return False
    try:
        return _is_output(_unpacked(read_bytes(path)))
    except Unusable:
        return False


def csv_text(file: bytes) -> CsvText:
    """The CSV in the bytes of a file.

    Raises:
        Unusable: it has none, is not UTF-8, or has a page without launches.
    """
    found = _unpacked(file)
    if found.startswith(_UTF16):
        raise Unusable(
            "it is UTF-16, as PowerShell redirects text; convert it to UTF-8, or use --log-file"
        )
    header = _HEADER.search(found)
    if header is None and _SAVED_AGAIN.search(found):
        raise Unusable(
            "another program saved this CSV of Nsight Compute in a format of its own; load the "
            f"file that ncu wrote, or {_AGAIN}"
        )
    if header is None:
        raise Unusable(f"{_last_message(found)}; see that ncu profiles a kernel, and use --csv")
    try:
        text = found[header.start() :].decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unusable(f"byte {header.start() + error.start} is not UTF-8; {_AGAIN}") from None
    first, *lines = text.split("\n")
    columns = _cells(first.rstrip("\r"))
    if columns is None or "Kernel Name" not in columns:
        raise Unusable(f"its header is cut off; {_AGAIN}")
    if not _SUMMARY.isdisjoint(columns):
        raise Unusable(
            "a summary (--print-summary) has means over launches, which cannot be separated; "
            "print the profile without --print-summary"
        )
    if "ID" not in columns:
        raise Unusable(f"it has no column ID, which numbers the launches; {_AGAIN}")
    return CsvText(columns, [line.rstrip("\r") for line in lines if line.strip()])


def _cells(line: str) -> list[str] | None:
    """The cells of a line; None if its quotes do not end."""
    try:
        return next(csv.reader((line,), strict=True))
    except (csv.Error, StopIteration):
        return None


def _is_output(head: bytes) -> bool:
    if head.startswith(_UTF16):
        head = head.decode("utf-16", errors="replace").encode()
    return any(pattern.search(head) for pattern in (_HEADER, _TOOL, _SAVED_AGAIN))


def _last_message(found: bytes) -> str:
    """The last message of the tool, if there is no CSV."""
    lines = _TOOL.findall(found)
    messages = [line for line in lines if not line.startswith(b"==PROF==")] or lines[-1:]
    last = messages[-1].decode("utf-8", errors="replace") if messages else ""
    return f"no CSV of Nsight Compute in it ({last[:_LETTERS].strip() or 'no message'})"


def _unpacked(file: bytes) -> bytes:
    if not file.startswith(_GZIP):
        return file.removeprefix(b"\xef\xbb\xbf")
    try:
        return gzip.decompress(file).removeprefix(b"\xef\xbb\xbf")
    except (OSError, EOFError, zlib.error):
        raise Unusable(
            "its compressed data is damaged or incomplete; copy the file again"
        ) from None


REPORTS = (".ncu-rep", ".ncu-repz")
SUFFIXES = (".csv", ".csv.gz", *REPORTS)  # of the files of a folder that may be profiles


def is_profile(path: Path) -> bool:
    """Whether a file is one of Nsight Compute: a report by its name, a CSV by its content."""
    return path.name.endswith(REPORTS) or is_csv(path)


def is_superseded(path: Path) -> bool:
    """Whether a report has its CSV beside it."""
    return path.name.endswith(REPORTS) and is_csv(path.with_suffix(".csv"))
