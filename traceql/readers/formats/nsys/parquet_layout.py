"""Where an export in Parquet files lies: a folder with a file for each table."""

from collections.abc import Iterator, Sequence
from pathlib import Path

SUFFIX = ".parquet"
TEXTS = "StringIds"
# One file stands for the folder: one whose content no other recording has.
_STANDING = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
    "OSRT_API",
    TEXTS,
)


def is_part(path: Path) -> bool:
    """Whether a file is a table of an export in Parquet files."""
    return path.name.endswith(SUFFIX) and _holds_export(path.parent)


def standing_file(path: Path) -> Path:
    """The file that stands for the export of a table's file."""
    return next(_standing(path.parent), path) if is_part(path) else path


def exports_of_folder(folder: Path) -> Sequence[Path]:
    """The files that stand for the export in a folder, or for those in its folders."""
    folders = [folder] if _holds_export(folder) else sorted(filter(_holds_export, folder.iterdir()))
    return [file for one in folders for file in list(_standing(one))[:1]]


def _holds_export(folder: Path) -> bool:
    """Whether a table that only exports have is there; reading says which one is missing."""
    return any(True for _ in _standing(folder))


def _standing(folder: Path) -> Iterator[Path]:
    for table in _STANDING:
        if (file := folder / f"{table}{SUFFIX}").is_file():
            yield file
