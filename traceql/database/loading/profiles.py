"""Loads files of Nsight Compute, which have counters of launches but no timeline."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceql.errors import ProfileSkipped
from traceql.readers.ncu.read import read_profile
from traceql.readers.ncu.values import Profile
from traceql.util.files import path_text

_LAUNCH = """
    INSERT INTO profiled_launch
    SELECT
        $first + index, $file, number, process_id, device, device_name, compute_capability,
        context, stream, name, kind, grid, block, ranges
    FROM incoming
"""
_METRIC = """
    INSERT INTO kernel_metric
    SELECT $first + launch, section, metric, unit, value, text, file_unit, step
    FROM incoming
"""


@dataclass(frozen=True)
class ProfilesRead:
    """Files of Nsight Compute."""

    new: Sequence[Profile]
    known: Sequence[Path]  # with the content of a loaded file, or of another new one
    skipped: Sequence[ProfileSkipped]  # an error for each file that cannot be read here


def read_profiles(
    files: Sequence[Path], *, named: Collection[Path], loaded: Collection[str]
) -> ProfilesRead:
    """Reads the files.

    Args:
        named: files that the user named: an unreadable one is an error, whereas a report beside
            traces is skipped.
        loaded: SHA-256 of the files that are already in the database.

    Raises:
        TraceCorrupt: a file cannot be used.
    """
    new: dict[str, Profile] = {}
    known: list[Path] = []
    skipped: list[ProfileSkipped] = []
    for file in files:
        try:
            profile = read_profile(file)
        except ProfileSkipped as error:
            if file in named:
                raise
            skipped.append(error)
            continue
        if profile.sha256 in loaded or profile.sha256 in new:
            known.append(file)
        else:
            new[profile.sha256] = profile
    return ProfilesRead([*new.values()], known, skipped)


def add_profiles(con: duckdb.DuckDBPyConnection, profiles: Sequence[Profile]) -> None:
    """Adds the launches and metrics of these files."""
    for profile in profiles:
        file = _next(con, "SELECT MAX(id) FROM profile_file")
        first = _next(con, "SELECT MAX(id) FROM profiled_launch")
        about = [file, path_text(profile.path), profile.sha256, profile.size_bytes, profile.page]
        con.execute("INSERT INTO profile_file VALUES (?, ?, ?, ?, ?)", about)
        con.register("incoming", profile.launches)
        con.execute(_LAUNCH, {"first": first, "file": file})
        con.register("incoming", profile.metrics)
        con.execute(_METRIC, {"first": first})
        con.unregister("incoming")
        con.executemany(
            "INSERT INTO profile_check VALUES (?, ?, ?, ?, ?, ?)",
            [(file, r.check_name, r.value, r.total, r.ok, r.note) for r in profile.remarks],
        )


def _next(con: duckdb.DuckDBPyConnection, largest: str) -> int:
    found = con.execute(largest).fetchall()[0][0]
    return 0 if found is None else int(found) + 1
