"""Finds trace files, profiles and the files of their run directories in the user's paths."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from traceql.errors import TraceNotFound
from traceql.readers.ncu import csv_text as ncu
from traceql.readers.registry import (
    is_superseded,
    is_trace_of_another_name,
    suffixes,
    traces_of_folder,
    whole,
)
from traceql.util.files import is_database, path_text

RUN = "run.json"  # a folder with this file is a run directory, which has its traces in `traces`
METRICS = "metrics.json"
STEPS = "steps.jsonl"
SCHEDULER = "scheduler.jsonl"
TELEMETRY = "telemetry.parquet"
LOG = "log.txt"
PEAKS = "peaks.json"
MODEL_CONFIG = "config.json"
GRAPH_NODES = "graph_nodes.json"
CAPTURES = "capture_traces"  # a folder with recordings of graph captures
NAMES = (RUN, METRICS, STEPS, SCHEDULER, TELEMETRY, LOG, PEAKS, MODEL_CONFIG, GRAPH_NODES)


def folders_beside(trace: Path) -> tuple[Path, ...]:
    """The folder of a trace and its parent, which may be the run directory."""
    return tuple(trace.parents[:2])


def paths_beside(traces: Iterable[Path]) -> Iterator[Path]:
    """Each path that a load of these traces may read, whether it exists or not."""
    for folder in dict.fromkeys(folder for trace in traces for folder in folders_beside(trace)):
        for name in NAMES:
            yield folder / name


def trace_files(paths: Iterable[Path]) -> list[Path]:
    """The files among `paths` and the trace files in its folders, in order, each once.

    A run directory has them in its folder `traces`; another folder has them directly in it, or else
    in its folder `traces`. The folder of a profiler has them where that profiler writes them. Only
    regular files are traces; those with a converted file beside them are left out. A recording of
    several files is one of them. A profile is not a trace.

    Raises:
        TraceNotFound: a path does not exist, cannot be read or is a database, or a folder has
            neither traces nor profiles.
    """
    return _each_once(whole(file) for path in paths for file in _files(path))


def capture_files(traces: Iterable[Path]) -> list[Path]:
    """The recordings of graph captures beside traces: those in a folder capture_traces."""
    folders = dict.fromkeys(folder for trace in traces for folder in folders_beside(trace))
    places = [folder / CAPTURES for folder in folders if (folder / CAPTURES).is_dir()]
    return [file for place in places for file in _files_in_places(place, suffixes())]


def profile_files(paths: Iterable[Path]) -> list[Path]:
    """The files of Nsight Compute among `paths`, in its folders and in their folders `traces`.

    Reports with a CSV beside them are left out.

    Raises:
        TraceNotFound: a path is not UTF-8.
    """
    return _each_once(file for path in paths for file in _profiles(path))


def _each_once(files: Iterable[Path]) -> list[Path]:
    found: dict[Path, Path] = {}
    for file in files:
        found.setdefault(file.resolve(), file)
    for file in found.values():
        if (shown := path_text(file)) != str(file):
            raise TraceNotFound(f"{shown}: the path is not UTF-8; rename it")
    return list(found.values())


def trace_path(file: Path) -> Path:
    """The absolute path of a trace, with links resolved except inside a run directory.

    A trace belongs to its run directory even if the folder `traces` or the file is a link.
    """
    folder = file.parent.absolute()
    if folder.name == "traces" and (folder.parent / RUN).is_file():
        return folder.parent.resolve() / folder.name / file.name
    return file.resolve()


def _files(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            return _files_of_folder(path)
        if path.is_file() and is_database(path):
            raise TraceNotFound(f"{path} is a database; show it with traceql info {path}")
        if path.is_file():
            return [] if ncu.is_profile(path) else [trace_path(path)]
        if path.exists():
            raise TraceNotFound(
                f"{path} is neither a file nor a folder; save the trace to a file and load that"
            )
    except OSError as error:
        raise TraceNotFound(f"{error.filename or path}: {error.strerror or error}") from None
    raise TraceNotFound(f"{path}: no such file or folder")


def _files_of_folder(folder: Path) -> list[Path]:
    if folder.name in ("", ".."):  # readers recognize folders by their names
        folder = folder.resolve()
    ends = suffixes()
    laid_out = [trace_path(file) for file in traces_of_folder(folder)]
    if (files := [*laid_out, *_files_in_places(folder, ends)]) or _profiles(folder):
        return files
    folders = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    below = [p.name for p in folders if traces_of_folder(p) or _files_in_places(p, ends)]
    if below:
        raise TraceNotFound(
            f"{folder}: no traces directly in this folder; load one of its folders that have some: "
            f"{', '.join(below)}"
        )
    *kinds, last = dict.fromkeys(f".{end.split('.')[1]}" for end in ends)
    raise TraceNotFound(
        f"{folder}: no traces in this folder; the names of traces end with {', '.join(kinds)} or "
        f"{last}, perhaps followed by .gz"
    )


def _profiles(path: Path) -> list[Path]:
    if path.is_file():
        return [trace_path(path)] if ncu.is_profile(path) else []
    places = [place for place in (path, path / "traces") if place.is_dir()]
    return [
        trace_path(file)
        for place in places
        for file in sorted(place.iterdir())
        if file.is_file() and file.name.endswith(ncu.SUFFIXES)  # before the content is read
        if ncu.is_profile(file) and not ncu.is_superseded(file)
    ]


def _files_in_places(folder: Path, ends: tuple[str, ...]) -> list[Path]:
    """The traces in the first place that has any: the folder itself, or its folder `traces`."""
    places = (folder, folder / "traces")
    for place in reversed(places) if (folder / RUN).is_file() else places:
        files = [
            file
            for file in (sorted(place.iterdir()) if place.is_dir() else ())
            if file.is_file() and file.name not in NAMES
            if file.name.endswith(ends) or is_trace_of_another_name(file)
            if not is_database(file)
        ]
        if files:
            return [trace_path(file) for file in files if not is_superseded(file)]
    return []
