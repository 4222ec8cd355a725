"""Baselines: the profiles of a side as Parquet files, so that a later run needs no old traces."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from traceql.errors import TraceqlError
from traceql.runs.compare.profile import RESULTS, columns_of
from traceql.runs.compare.setup import is_ignored
from traceql.util.files import write_folder
from traceql.util.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

    from traceql.runs.compare.profile import Profile
    from traceql.runs.compare.sides import Run

_MANIFEST = "baseline.json"
_FORMAT = 1  # of the manifest and of the tables
_RUN = "run"  # the column that tells the runs of a table apart
_TYPES = {  # of DuckDB, and what they may be in Parquet
    "BIGINT": ("int64", "null"),
    "DOUBLE": ("double", "null"),
    "VARCHAR": ("string", "large_string", "null"),
}


def is_baseline(path: Path) -> bool:
    return (path / _MANIFEST).is_file()


def require_free(folder: Path, *, replace: bool) -> None:
    """Makes sure that a baseline may be written there.

    Raises:
        TraceqlError: the folder holds other files, or a baseline that is not to be replaced.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not is_baseline(folder):
        raise TraceqlError(f"{folder} exists and is not a baseline; give another name")
    if not replace:
        raise TraceqlError(f"{folder} is a baseline already; --replace replaces it")


def save_baseline(runs: Sequence["Run"], folder: Path, *, replace: bool = False) -> None:
    """Writes a baseline: a folder with a manifest and one Parquet file for each table.

    It holds no paths, secrets and identifiers of the machine that recorded the runs.

    Args:
        replace: whether it may take the place of another baseline.

    Raises:
        TraceqlError: the folder holds other files, or it cannot be written.
    """
    require_free(folder, replace=replace)
    manifest = {
        "format": _FORMAT,
        "traceql": __version__,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "runs": [Path(run.name).name for run in runs],
    }
    files = {f"{name}.parquet": _parquet(name, runs) for name in RESULTS}
    write_folder(folder, {**files, _MANIFEST: json.dumps(manifest, indent=2).encode() + b"\n"})


def _parquet(name: str, runs: Sequence["Run"]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [
        rows.append_column(_RUN, pa.array([number] * len(rows), pa.int64()))
        for number, run in enumerate(runs)
        for rows in [_without_ignored(name, run.profile[name])]
    ]
    file = BytesIO()
    pq.write_table(pa.concat_tables(tables), file, compression="zstd")
    return file.getvalue()


def _without_ignored(name: str, rows: "pa.Table") -> "pa.Table":
    """The rows of a table, of the facts only those that may be a difference."""
    if name != "fact":
        return rows
    names = rows["name"].to_pylist()
    return rows.filter([not is_ignored(name) for name in names])


def _is_sound(name: str, rows: "pa.Table") -> bool:
    """Whether the columns have the types that their file declares, and numbers where they must."""
    types = {column.name: column.type for column in columns_of(name)}
    for column in types:
        found = str(rows.schema.field(column).type)
        if found not in _TYPES[types[column]] or (column == "ns" and rows[column].null_count):
            return False
    return True


@dataclass(frozen=True)
class Manifest:
    """What a baseline says of itself.

    Attributes:
        traceql: the version that saved it.
        saved: when, in UTC.
        runs: the names of its runs.
    """

    traceql: str
    saved: str
    runs: tuple[str, ...]


def manifest_of(folder: Path) -> Manifest:
    """What a baseline says of itself.

    Raises:
        TraceqlError: it is no baseline, or one of another format, or damaged.
    """
    if not is_baseline(folder):
        raise TraceqlError(f"{folder} is not a baseline; traceql baseline save NAME makes one")
    try:
        found = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        known, runs = found["format"], found["runs"]
        if known == _FORMAT and not (
            isinstance(runs, list) and runs and all(isinstance(run, str) for run in runs)
        ):
            raise ValueError
        manifest = Manifest(str(found.get("traceql", "")), str(found.get("saved", "")), (*runs,))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        raise TraceqlError(f"{folder / _MANIFEST} is damaged; save the baseline again") from None
    if known != _FORMAT:
        raise TraceqlError(
            f"{folder} was saved by another version of traceql (format {known}, this one reads "
            f"{_FORMAT}); save it again with traceql baseline save"
        )
    return manifest


def saved_profiles(folder: Path) -> Iterator[tuple[str, "Profile"]]:
    """The name and the tables of each run of a baseline.

    Raises:
        TraceqlError: another version of traceql saved it, or a file is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    names = manifest_of(folder).runs
    try:
        tables = {name: pq.read_table(folder / f"{name}.parquet") for name in RESULTS}
    except (OSError, pa.ArrowException):
        raise TraceqlError(
            f"a file of the baseline {folder} is missing or damaged; save it again"
        ) from None
    for name, table in tables.items():
        expected = {column.name for column in columns_of(name)} | {_RUN}
        if set(table.column_names) != expected:
            raise TraceqlError(
                f"{folder / name}.parquet has other columns; save the baseline again"
            )
        if not _is_sound(name, table):
            raise TraceqlError(f"{folder / name}.parquet has wrong values; save the baseline again")
    if set(tables["fact"][_RUN].to_pylist()) != set(range(len(names))):
        raise TraceqlError(
            f"{folder / _MANIFEST} names {len(names)} runs, and the tables have others; save the "
            "baseline again"
        )
    for number, run in enumerate(names):
        yield (
            run,
            {
                name: table.filter(pc.equal(table[_RUN], number)).drop_columns([_RUN])
                for name, table in tables.items()
            },
        )
