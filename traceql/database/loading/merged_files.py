"""Merged files beside the files that they were made from, as engines write them into one folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from traceql.database.loading.reading import FileRead
from traceql.readers.dialects.registry import loaded_facts


@dataclass(frozen=True)
class Activities:
    """The GPU activities of a recording: how many, and their times in the file's own time, ns."""

    number: int
    first_ts: int
    last_ts: int
    dur: int


Known = dict[Activities, tuple[str, int | None]]  # path and base time of each recording


def loaded_activities(con: duckdb.DuckDBPyConnection) -> Known:
    """The activities of the recordings in a database."""
    rows = con.execute("""
        SELECT
            ANY_VALUE(path), ANY_VALUE(dialect), ANY_VALUE(metadata),
            COUNT(*), MIN(ts - file_offset_ns), MAX(ts + dur - file_offset_ns), SUM(dur)::BIGINT
        FROM trace
        JOIN slice USING (rank)
        JOIN internal.activity USING (id)
        GROUP BY trace.rank
    """).fetchall()
    return {
        Activities(*times): (path, loaded_facts(dialect, metadata).base_time_ns)
        for path, dialect, metadata, *times in rows
    }


def without_copies(
    files: Sequence[FileRead], loaded: Callable[[], Known]
) -> tuple[list[FileRead], dict[Path, str]]:
    """The recordings without those of merged files that are those of other files.

    Args:
        files: recordings that are not in the database.
        loaded: those that are.

    Returns:
        The others, and for each merged file that is left out a sentence with the reason.
    """
    if all(file.facts.label is None for file in files):
        return list(files), {}
    known = loaded()
    for file in files:
        if file.facts.label is None and (found := _activities(file)):
            known[found] = (str(file.path), file.facts.base_time_ns)
    copies: dict[Path, list[str]] = {}
    kept = []
    for file in files:
        found = _activities(file) if file.facts.label is not None else None
        path, base_ns = known.get(found, ("", None)) if found else ("", None)
        if path and base_ns == file.facts.base_time_ns:
            copies.setdefault(file.path, []).append(Path(path).name)
        else:
            kept.append(file)
    return kept, {
        path: f"{path} is merged from {', '.join(names)}, which are loaded; it is left out"
        for path, names in copies.items()
    }


def _activities(file: FileRead) -> Activities | None:
    """None without GPU activities."""
    number = dur = before = 0
    borders: list[int] = []
    parts = zip(file.parts("slice"), file.parts("activity"), strict=True)
    for (_, slices), (_, activity) in parts:
        rows = activity["index"].to_numpy() - before
        before += len(slices)
        if len(rows):
            ts, durs = (slices[name].to_numpy()[rows] for name in ("ts", "dur"))
            borders += [int(ts.min()), int((ts + durs).max())]
            number, dur = number + len(rows), dur + int(np.sum(durs))
    return Activities(number, min(borders), max(borders), dur) if number else None
