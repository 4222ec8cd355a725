"""Loads trace files into one DuckDB file, atomically."""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from traceql.analysis.classification.rules import write_rules
from traceql.database.loading.captured_nodes import add_captured_nodes
from traceql.database.loading.discovery import (
    capture_files,
    profile_files,
    trace_files,
    trace_path,
)
from traceql.database.loading.draft import (
    LOADED,
    cannot_write,
    every_table,
    limit_deriving,
    open_draft,
    require_no_log,
    workspace,
)
from traceql.database.loading.graph_captures import (
    GraphCapture,
    have_graph_nodes,
    require_a_run,
    without_captures,
)
from traceql.database.loading.inputs import write_model_config, write_peaks
from traceql.database.loading.insertion import add_files, add_profiles, create_tables, read_profiles
from traceql.database.loading.merged_files import Known, loaded_activities, without_copies
from traceql.database.loading.reading import FileRead, prefetched_recordings, read_files
from traceql.database.loading.run_directory import RunDirectory, run_directories
from traceql.database.loading.run_files import add_runs
from traceql.database.opening import excerpt_in, opened_database
from traceql.errors import DatabaseError, TraceqlError
from traceql.readers.contract import ReadMode, parse_read_mode, unpacked_bytes
from traceql.readers.registry import reader_of
from traceql.sql.execute import drop_derived, make_tables, present
from traceql.sql.registry import definitions
from traceql.util.files import atomic_write
from traceql.util.process import memory_bytes
from traceql.util.units import SIZE

if TYPE_CHECKING:
    from traceql.readers.ncu.values import Profile

# Disk that a load needs, in unpacked sizes of its files: sections of events, sorting in DuckDB, and
# the new database (benchmarks/large_traces.py).
_NEEDED = 1.3
_LARGE_BYTES = 4 << 30


def require_disk_space(
    files: Sequence[Path], folder: Path, done: Callable[[str, int, int], None]
) -> None:
    """Raises DatabaseError if a large load does not fit on the disk.

    Args:
        folder: where the load writes.
        done: called for a large load with disk, the needed bytes and the free ones.
    """
    needed = int(_NEEDED * sum(map(unpacked_bytes, files)))
    free = shutil.disk_usage(folder).free
    if needed < _LARGE_BYTES:
        return
    done("disk", needed, free)
    if needed > free:
        raise DatabaseError(
            f"the load needs about {SIZE.text(needed)} of disk in {folder}, where "
            f"{SIZE.text(free)} are free; free some space, or choose another place with -o"
        )


DEFAULT_DATABASE = Path("run.duckdb")
_OTHERWISE = "name another file with -o"


@dataclass(frozen=True)
class Loaded:
    """The result of a load."""

    database: Path
    added: Sequence[Path]  # files that are new in the database
    skipped: Sequence[Path]  # files that were already in it, or have the content of another one
    others: Sequence[str] = ()  # a sentence for each file that was left out, with the reason
    notes: Sequence[str] = ()  # sentences about how ranks and graph nodes were found


def load(
    paths: str | Path | Sequence[str | Path],
    database: str | Path = DEFAULT_DATABASE,
    *,
    trace_processor: str | Path | None = None,
    rules: Sequence[str | Path] = (),
    model_config: str | Path | None = None,
    peaks: Sequence[str | Path] = (),
    mix_profilers: bool = False,
    reader: str = "auto",
    memory: int | str | None = None,
    jobs: int | None = None,
    complete: bool = False,
    prefetched: Path | None = None,
    done: Callable[[str, int, int], None] = lambda _what, _count, _total: None,
) -> Loaded:
    """Loads traces, folders of ranks, run directories or profiles into one DuckDB file.

    The new database replaces the old one when it is complete; after an error, the old one stays
    unchanged. Files that are already in it (same SHA-256) are skipped.

    Args:
        paths: trace files, profiles of Nsight Compute, folders of these, or run directories.
        database: the DuckDB file to create or to add to.
        trace_processor: a native trace_processor_shell to use instead of the bundled one.
        rules: CSV files with classification rules; one replaces a built-in rule of its priority.
        model_config: the model's config.json; by default that in a run.json beside the traces.
        peaks: CSV files of peaks, and files of measured ceilings of `traceql experiment peaks`.
        mix_profilers: whether the files may be of several profilers; otherwise that is an error.
        reader: how to read JSON: perfetto nests all events of a file with the trace processor,
            stream reads sections in bounded memory, auto streams files of 400 MiB and more. The
            tables are the same.
        memory: the approximate memory of a load, in bytes or as text such as "4GB"; by default half
            the memory of the machine or container.
        jobs: the number of files to read in parallel; None for one per processor.
        complete: whether to make all tables now, for programs that open the file with DuckDB. A
            complete database stays complete.
        prefetched: a folder of files that were read before (see `prefetch`).
        done: called for progress, with what was done (files or database), how many, and of how
            many; with engine, before the trace processor is compiled; and with disk, the bytes
            that a large load needs and those that are free.

    Raises:
        TraceqlError: nothing was written; the message says what is wrong and what to do.
    """
    if jobs is not None and jobs < 1:
        raise TraceqlError(f"jobs is {jobs}; give a number of processes from 1")
    given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    options = _Reading(
        trace_processor=Path(trace_processor) if trace_processor else None,
        mode=parse_read_mode(reader),
        memory_bytes=memory_bytes(memory),
        jobs=jobs,
        done=done,
    )
    files, profiles = trace_files(given), profile_files(given)
    named = [trace_path(path) for path in given if path.is_file()]
    runs = run_directories(files)
    target = Path(database).absolute()
    with workspace(target) as folder:
        require_disk_space(files, folder.parent, done)
        before = _before(target)
        require_no_log(target)
        counters = read_profiles(profiles, named=named if files else profiles, loaded=before.files)
        known = prefetched_recordings(files, prefetched, before.files) if prefetched else {}
        found = _found(files, folder, options, named=named, loaded=before.files, prefetched=known)
        new, copies = without_copies(found.distinct, partial(_loaded_activities, target))
        if not mix_profilers:
            _require_one_profiler(before, new)
        additions = _Additions(
            files=new,
            runs={file.path: runs[file.path] for file in new if file.path in runs},
            captures=found.captures,
            profiles=counters.new,
            rules=[Path(path) for path in rules],
            model_config=Path(model_config) if model_config else None,
            peaks=[Path(path) for path in peaks],
        )
        notes: list[str] = []
        if additions or (complete and not before.is_complete):
            done("database", 0, 1)
            wanted = every_table() if complete or before.is_complete else LOADED
            draft = folder / "new.duckdb"
            with atomic_write(target, draft=draft, may_replace_database=True):
                notes = _write(target, draft, additions, wanted, options.memory_bytes)
                require_no_log(target)
            done("database", 1, 1)
    paths_of = [*(file.path for file in new), *(profile.path for profile in counters.new)]
    added = list(dict.fromkeys(paths_of))
    skipped = [file.path for file in found.recordings if file.path not in (*added, *copies)]
    left_out = [*found.left_out, *map(str, counters.skipped), *copies.values()]
    return Loaded(Path(database), added, [*skipped, *counters.known], left_out, notes)


@dataclass(frozen=True)
class _Reading:
    """How a load reads files; see `load`."""

    trace_processor: Path | None
    mode: ReadMode
    memory_bytes: int
    jobs: int | None
    done: Callable[[str, int, int], None]


@dataclass(frozen=True)
class _Found:
    """What the files of a load contain.

    Attributes:
        recordings: those of runs.
        captures: those of graph captures.
        left_out: a sentence for each file or folder that is not loaded.
    """

    recordings: Sequence[FileRead]
    captures: Sequence[GraphCapture]
    left_out: Sequence[str]

    @property
    def distinct(self) -> list[FileRead]:
        """The recordings that were read, each once."""
        found: dict[tuple[str, int], FileRead] = {}
        for file in self.recordings:
            if file.folder:
                found.setdefault((file.sha256, file.number), file)
        return [*found.values()]


def _found(
    files: Sequence[Path],
    folder: Path,
    options: _Reading,
    *,
    named: Sequence[Path],
    loaded: frozenset[str],
    prefetched: Mapping[Path, Sequence[FileRead]],
) -> _Found:
    """Reads the files into a folder, and the recordings of captures beside them if they help."""
    read_into = partial(
        read_files,
        named=named,
        loaded=loaded,
        trace_processor=options.trace_processor,
        mode=options.mode,
        memory_bytes=options.memory_bytes,
        jobs=options.jobs,
        meanwhile=_prepare,
    )
    with ThreadPoolExecutor(1) as pool:
        if files:
            pool.submit(_announce_compilation, files, options)
        read, others = read_into(
            files,
            folder,
            prefetched=prefetched,
            done=lambda count: options.done("files", count, len(files)),
        )
    read, captures = without_captures(read)
    require_a_run(read, captures, has_database=bool(loaded))
    beside = [file for file in capture_files(files) if file not in files]
    if beside and have_graph_nodes(read):
        (own := folder / "captures").mkdir()
        of_captures, _ = read_into(beside, own, prefetched={}, done=lambda _count: None)
        captures = [*captures, *without_captures(of_captures)[1]]
        beside = []
    left_out = [
        *(f"not a trace: {error}" for error in others),
        *map(str, captures),
        *(
            f"{place}: recordings of graph captures; kernels have no graph node ids to name by them"
            for place in dict.fromkeys(file.parent for file in beside)
        ),
    ]
    return _Found(read, captures, left_out)


@dataclass(frozen=True)
class _Additions:
    """What a load adds to a database; false if that is nothing."""

    files: Sequence[FileRead]
    runs: Mapping[Path, RunDirectory]
    captures: Sequence[GraphCapture]
    profiles: Sequence["Profile"]
    rules: Sequence[Path]
    model_config: Path | None
    peaks: Sequence[Path]

    def __bool__(self) -> bool:
        return bool(self.files or self.profiles or self.rules or self.model_config or self.peaks)

    def write(self, con: duckdb.DuckDBPyConnection, *, is_new: bool) -> list[str]:
        """Writes the source tables; returns sentences about how ranks and nodes were found."""
        drop_derived(con)
        create_tables(con)
        if self.rules or is_new:
            write_rules(con, self.rules)
        if self.peaks:
            write_peaks(con, self.peaks)
        write_model_config(con, self.model_config, [file.path for file in self.files], self.runs)
        notes = add_files(con, self.files, self.runs) if self.files else []
        if nodes := add_captured_nodes(con, self.captures):
            notes.append(f"{nodes:,} graph nodes named by recordings of their capture")
        add_profiles(con, self.profiles)
        add_runs(con, self.runs)
        return notes


def _announce_compilation(files: Sequence[Path], options: _Reading) -> None:
    """Calls `done` if a reading process is going to compile the engine."""
    readers = ((file, reader_of(file)) for file in files)
    if not any(one.runs_engine and not one.streams(file, options.mode) for file, one in readers):
        return  # without importing the engine
    engine = import_module("traceql.readers.trace_processor")
    if engine.will_compile(options.trace_processor):
        options.done("engine", 0, 1)


def _prepare() -> None:
    """Imports the modules that write the database, which takes half a second."""
    pa.array([0])  # imports pandas, unless it is hidden
    for one in definitions().values():
        if one.is_python:
            _ = one.rows


@dataclass(frozen=True)
class _Before:
    """The database before a load."""

    files: frozenset[str] = frozenset()  # SHA-256 of traces and profiles
    by_dialect: Mapping[str, str] = field(default_factory=dict)  # a trace of each profiler
    is_complete: bool = False  # whether it has all tables


def _loaded_activities(database: Path) -> Known:
    if not database.exists():
        return {}
    with closing(opened_database(database, otherwise=_OTHERWISE)) as con:
        return loaded_activities(con)


def _before(database: Path) -> _Before:
    if not database.exists():
        return _Before()
    with closing(opened_database(database, otherwise=_OTHERWISE)) as con:
        if excerpt_in(con) is not None:
            raise TraceqlError(f"{database} is an excerpt, which cannot be added to; {_OTHERWISE}")
        files = con.execute("SELECT sha256 FROM trace UNION ALL SELECT sha256 FROM profile_file")
        loaded = frozenset(sha256 for (sha256,) in files.fetchall())
        found = con.execute("SELECT dialect, MIN(path) FROM trace GROUP BY dialect ORDER BY 1")
        return _Before(loaded, dict(found.fetchall()), present(con).issuperset(every_table()))


def _require_one_profiler(before: _Before, files: Sequence[FileRead]) -> None:
    """Raises TraceqlError if the new and the loaded files are of several profilers."""
    by_dialect = dict(before.by_dialect)
    for file in files:
        by_dialect.setdefault(file.dialect, str(file.path))
    if len(by_dialect) > 1:
        listed = ", ".join(f"{dialect} ({path})" for dialect, path in by_dialect.items())
        raise TraceqlError(
            f"recordings of several profilers: {listed}; load each run into a database of its own "
            "(-o), or give --mix-profilers if they are ranks of one run"
        )


def _write(
    target: Path,
    draft: Path,
    additions: _Additions,
    wanted: Collection[str],
    budget: int,
) -> list[str]:
    """Writes the draft: a copy of the database, if there is one, with new rows and tables.

    Returns sentences about how ranks and graph nodes were found.
    """
    notes: list[str] = []
    is_new = not target.exists()
    try:
        if not is_new:
            shutil.copyfile(target, draft)
        with open_draft(draft, budget_bytes=budget) as con:
            if additions or is_new:
                notes = additions.write(con, is_new=is_new)
            make_tables(con, wanted, at_once=limit_deriving(con, budget))
    except (duckdb.Error, OSError) as error:
        raise cannot_write(target, error) from None
    return notes
