"""Recognises the files of Nsight Compute. It imports nothing heavy: every load asks it."""

from pathlib import Path

from traceql.readers.ncu.csv_text import is_csv

REPORTS = (".ncu-rep", ".ncu-repz")
SUFFIXES = (".csv", ".csv.gz", *REPORTS)  # of the files of a folder that may be profiles


def is_profile(path: Path) -> bool:
    """Whether a file is one of Nsight Compute: a report by its name, a CSV by its content."""
    return path.name.endswith(REPORTS) or is_csv(path)


def is_superseded(path: Path) -> bool:
    """Whether a report has the CSV that was printed from it beside it."""
    return path.name.endswith(REPORTS) and is_csv(path.with_suffix(".csv"))
