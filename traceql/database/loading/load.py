"""Loads trace files into one DuckDB file, atomically."""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

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
from traceql.database.loading.run_directory import run_directories
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
        rules: CSV files with classification rules, which are added to the built-in ones; a rule
            replaces a built-in one with the same priority.
        model_config: the model's config.json, to check the recognized layers against; by default
            the configuration in a run.json beside the traces.
        peaks: CSV files whose rows replace those of the data sheets, and files of measured ceilings
            of `traceql experiment peaks`; a peaks.json in a run directory is loaded by default.
        mix_profilers: whether the files may be of several profilers; otherwise that is an error.
        reader: how to read JSON traces: perfetto nests all events of a file with the trace
            processor, stream reads sections in bounded memory, auto streams files of 400 MiB and
            more (of unpacked JSON). The tables are the same.
        memory: the approximate memory of a load, in bytes or as text such as "4GB"; the rest goes
            to disk beside the database. By default half the memory of the machine or container.
        jobs: the number of files to read in parallel; None for one per processor.
        complete: whether to make all tables now, for programs that open the file with DuckDB. By
            default the less common tables are made when a query first needs them. A complete
            database stays complete.
        prefetched: a folder of files that were read before (see `prefetch`).
        done: called for progress, with what was done (files or database), how many, and of how
            many; also with engine, before the trace processor is compiled, and with disk, the bytes
            that a large load needs and those that are free.

    Raises:
        TraceqlError: nothing was written; the message says what is wrong and what to do.
    """
    if jobs is not None and jobs < 1:
        raise TraceqlError(f"jobs is {jobs}; give a number of processes from 1")
    budget, mode = memory_bytes(memory), parse_read_mode(reader)
    given = [paths] if isinstance(paths, str | Path) else paths
    files = trace_files([Path(p) for p in given])
    profiles = profile_files([Path(p) for p in given])
    named = [trace_path(path) for path in map(Path, given) if path.is_file()]
    runs = run_directories(files)
    target = Path(database).absolute()
    with workspace(target) as folder, ThreadPoolExecutor(1) as pool:
        require_disk_space(files, folder.parent, done)
        before = _before(target)
        require_no_log(target)
        counters = read_profiles(profiles, named=named if files else profiles, loaded=before.files)
        native = Path(trace_processor) if trace_processor else None
        if files:
            pool.submit(_announce_compilation, files, mode, native, done)
        read_into = partial(
            read_files,
            named=named,
            loaded=before.files,
            trace_processor=native,
            mode=mode,
            memory_bytes=budget,
            jobs=jobs,
            meanwhile=_prepare,
        )
        read, others = read_into(
            files,
            folder,
            prefetched=prefetched_recordings(files, prefetched, before.files) if prefetched else {},
            done=lambda count: done("files", count, len(files)),
        )
        read, captures = without_captures(read)
        require_a_run(read, captures, has_database=bool(before.files))
        beside = [file for file in capture_files(files) if file not in files]
        if beside and have_graph_nodes(read):
            captures = [*captures, *_read_captures(beside, folder, read_into)]
            beside = []
        distinct: dict[tuple[str, int], FileRead] = {}
        for file in read:
            if file.folder:
                distinct.setdefault((file.sha256, file.number), file)
        new, copies = without_copies([*distinct.values()], partial(_loaded_activities, target))
        if not mix_profilers:
            _require_one_profiler(before, new)
        notes: list[str] = []
        is_changed = bool(new or counters.new or rules or model_config or peaks)
        if is_changed or (complete and not before.is_complete):
            done("database", 0, 1)
            wanted = every_table() if complete or before.is_complete else LOADED
            new_runs = {file.path: runs[file.path] for file in new if file.path in runs}
            is_new = not target.exists()

            def write_sources(con: duckdb.DuckDBPyConnection) -> None:
                if not (is_changed or is_new):
                    return
                drop_derived(con)
                create_tables(con)
                if rules or is_new:
                    write_rules(con, [Path(path) for path in rules])
                if peaks:
                    write_peaks(con, [Path(path) for path in peaks])
                config = Path(model_config) if model_config else None
                write_model_config(con, config, [file.path for file in new], new_runs)
                notes.extend(add_files(con, new, new_runs) if new else ())
                if named_nodes := add_captured_nodes(con, captures):
                    notes.append(
                        f"{named_nodes:,} graph nodes named by recordings of their capture"
                    )
                add_profiles(con, counters.new)
                add_runs(con, new_runs)

            draft = folder / "new.duckdb"
            with atomic_write(target, draft=draft, may_replace_database=True):
                _write(target, draft, write_sources, wanted, budget)
                require_no_log(target)
            done("database", 1, 1)
    paths_of = [*(file.path for file in new), *(profile.path for profile in counters.new)]
    added = list(dict.fromkeys(paths_of))
    skipped = [file.path for file in read if file.path not in (*added, *copies)]
    left_out = [
        *(f"not a trace: {error}" for error in others),
        *map(str, [*captures, *counters.skipped]),
        *(
            f"{place}: recordings of graph captures; kernels have no graph node ids to name by them"
            for place in dict.fromkeys(file.parent for file in beside)
        ),
        *copies.values(),
    ]
    return Loaded(Path(database), added, [*skipped, *counters.known], left_out, notes)


def _read_captures(
    files: Sequence[Path],
    folder: Path,
    read_into: Callable[..., tuple[Sequence[FileRead], Sequence[object]]],
) -> Sequence[GraphCapture]:
    """The recordings of graph captures in these files, read into a folder of their own."""
    (own := folder / "captures").mkdir()
    read, _ = read_into(files, own, prefetched={}, done=lambda _count: None)
    return without_captures(read)[1]


def _announce_compilation(
    files: Sequence[Path],
    mode: ReadMode,
    trace_processor: Path | None,
    done: Callable[[str, int, int], None],
) -> None:
    """Calls `done` if a reading process is going to compile the engine."""
    readers = ((file, reader_of(file)) for file in files)
    if not any(reader.runs_engine and not reader.streams(file, mode) for file, reader in readers):
        return  # without importing the engine
    if import_module("traceql.readers.trace_processor").will_compile(trace_processor):
        done("engine", 0, 1)


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
    write_sources: Callable[[duckdb.DuckDBPyConnection], None],
    wanted: Collection[str],
    budget: int,
) -> None:
    """Writes the draft: a copy of the database, if there is one, with new rows and tables."""
    try:
        if target.exists():
            shutil.copyfile(target, draft)
        with open_draft(draft, budget_bytes=budget) as con:
            write_sources(con)
            make_tables(con, wanted, at_once=limit_deriving(con, budget))
    except (duckdb.Error, OSError) as error:
        raise cannot_write(target, error) from None
