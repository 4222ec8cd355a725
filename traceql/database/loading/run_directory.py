"""Finds the run directories of traces, and reads what run.json says of their ranks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from traceql.database.loading.json_document import JsonDocument, checked, json_document
from traceql.database.loading.run_document import RankEntry, RankPlaces
from traceql.database.loading.side_files import RUN
from traceql.errors import TraceCorrupt
from traceql.util.input_file import Unusable

_KNOWN_SCHEMA = 1


@dataclass(frozen=True)
class RunDirectory:
    """A run directory, and what its run.json says."""

    path: Path
    document: JsonDocument
    places: RankPlaces

    @property
    def world_size(self) -> int | None:
        """The number of ranks; None if it is not stated."""
        return self.places.parallel.world_size if self.places.parallel else None

    def rank_of(self, trace: Path, process: int | None) -> RankEntry | None:
        """The entry for a rank of a trace in this directory.

        Args:
            process: the id of the rank's process, by which the ranks of one file are told apart.
        """
        entries = self._entries.get(f"traces/{trace.name}", [])
        if len(entries) == 1 and None in (process, entries[0].pid):
            return entries[0]
        return next((entry for entry in entries if entry.pid == process), None)

    @cached_property
    def _entries(self) -> Mapping[str | None, list[RankEntry]]:
        found: dict[str | None, list[RankEntry]] = {}
        for entry in self.places.ranks or ():
            found.setdefault(entry.trace, []).append(entry)
        return found


def run_directories(traces: Iterable[Path]) -> dict[Path, RunDirectory]:
    """The run directory of each trace that is in one. Each run.json is read once.

    Raises:
        TraceCorrupt: a run.json cannot be read, does not say clearly which rank a trace is, or was
            written by a newer version of traceql.
    """
    inside = [trace for trace in traces if trace.parent.name == "traces"]
    found = {folder: _run_directory(folder) for folder in {t.parent.parent for t in inside}}
    return {trace: run for trace in inside if (run := found[trace.parent.parent])}


def _run_directory(folder: Path) -> RunDirectory | None:
    """None if `traceql capture` wrote no run.json there."""
    file = folder / RUN
    try:
        if not file.exists():
            return None
        document = json_document(file)
        if not isinstance(document.value, dict) or "schema_version" not in document.value:
            return None
        places = checked(document.value, RankPlaces)
        _require_each_once(places)
    except (OSError, Unusable) as error:
        raise TraceCorrupt(
            f"cannot read {file}: {error}; correct it, or move it away to load only the traces"
        ) from None
    if places.schema_version > _KNOWN_SCHEMA:
        raise TraceCorrupt(f"{file} was written by a newer version of traceql; update traceql")
    return RunDirectory(folder, document, places)


def _require_each_once(places: RankPlaces) -> None:
    entries = places.ranks or []
    ranks = [entry.rank for entry in entries]
    files = [(entry.trace, entry.pid) for entry in entries if entry.trace is not None]
    if len(set(ranks)) < len(ranks):
        twice = next(rank for rank in ranks if ranks.count(rank) > 1)
        raise Unusable(f"two entries of $.ranks are rank {twice}")
    if len(set(files)) < len(files):
        trace, pid = next(file for file in files if files.count(file) > 1)
        of_process = "" if pid is None else f" and the process {pid}"
        raise Unusable(f"two entries of $.ranks have the trace {trace}{of_process}")
