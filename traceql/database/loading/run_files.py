"""Loads the other files of run directories, which `traceql capture` writes."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
from pyarrow import types

from traceql.database.loading.discovery import (
    GRAPH_NODES,
    LOG,
    METRICS,
    PEAKS,
    RUN,
    SCHEDULER,
    STEPS,
    TELEMETRY,
    folders_beside,
)
from traceql.database.loading.inputs import add_peak_file, described_model, peaks_document
from traceql.database.loading.log_messages import read_log
from traceql.database.loading.run_directory import (
    Metrics,
    RunDirectory,
    RunFacts,
    SchedulerSample,
    Step,
    Tokens,
    checked,
    json_document,
)
from traceql.errors import ModelConfigInvalid
from traceql.readers.redaction import listed
from traceql.util.files import Unusable, read_bytes, read_text

_NODE = re.compile(r"0|[1-9][0-9]{0,18}")
_NODE_ROW = """
    INSERT INTO graph_node BY NAME
    SELECT ? AS rank, ? AS graph_node_id, ? AS path, 1 AS position
"""
_REMOVE = "DELETE FROM graph_node WHERE rank = ? AND list_contains(?, graph_node_id)"


def write_graph_nodes(
    con: duckdb.DuckDBPyConnection, rank: int, trace: Path, *, before: int | None = None
) -> None:
    """Fills `graph_node` from the graph_nodes.json beside a rank's trace, if there is one.

    The file maps each rank to its graph nodes ("graph node id" of the profiler), and these to the
    module that launched their kernel during capture:
    `{"0": {"4294967301": "model.layers.3.self_attn.qkv_proj"}}`.

    Args:
        before: the number of the rank when the file was read before; what it named then goes.

    Raises:
        ModelConfigInvalid: the file exists, but cannot be read.
    """
    for path in (folder / GRAPH_NODES for folder in folders_beside(trace)):
        try:
            if not path.exists():
                continue
            modules = checked(json_document(path).value, dict[str, dict[str, str]])
            rows = list(_rows(rank, modules.get(str(rank), {})))
            former = list(_rows(rank, modules.get(str(before), {})))
        except (OSError, Unusable) as error:
            raise ModelConfigInvalid(
                f"{path} is not a map of graph nodes: {error}; correct it, or move it away"
            ) from None
        if before is not None:
            con.execute(_REMOVE, [rank, [node for _, node, _ in (*rows, *former)]])
        if rows:
            con.executemany(_NODE_ROW, rows)
        return


def _rows(rank: int, nodes: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    for node, module in nodes.items():
        if not _NODE.fullmatch(node) or int(node) >= 2**63:
            raise Unusable(f"'{node[:40]}' of rank {rank} is not the number of a graph node")
        yield rank, int(node), module.replace(".", "/")


_NUMBERS = (
    *("unix_ns", "gpu", "utilization_pct", "memory_used_bytes", "temperature_c", "power_mw"),
    *("sm_clock_mhz", "throttle_reasons"),
)
_UUID = "uuid"


def read_telemetry(file: Path) -> pa.Table:
    """The samples in a file, without unknown columns.

    Raises Unusable if the file cannot be read, or a column is missing or has another type.
    """
    from pyarrow.parquet import ParquetFile  # takes 50 ms, and few runs have telemetry

    given = pa.BufferReader(read_bytes(file))
    try:
        read = ParquetFile(given).read(columns=[*_NUMBERS, _UUID])  # those that are there
        columns = {name: _column(read, name) for name in (*_NUMBERS, _UUID)}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Unusable(str(error).splitlines()[0]) from None
    return pa.table(columns)


def _column(read: pa.Table, name: str) -> pa.ChunkedArray:
    if read.column_names.count(name) != 1:
        raise Unusable(f"it has not one column {name}")
    column, type_ = read[name], pa.string() if name == _UUID else pa.int64()
    is_expected = types.is_string if name == _UUID else types.is_integer
    if not (is_expected(column.type) or types.is_null(column.type)):
        raise Unusable(f"column {name} is {column.type}, not {type_}")
    found = column.cast(type_)
    found.validate(full=True)  # text may not be UTF-8
    if name != _UUID:  # a sum or difference of two numbers must fit into 64 bits
        import pyarrow.compute as pc  # takes long, and few runs need it

        extremes = pc.min_max(found).as_py().values()
        if any(number is not None and abs(number) >= 2**62 for number in extremes):
            raise Unusable(f"column {name} has a number of more than 62 bits")
    return found


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TOKENS = pa.map_(pa.string(), pa.int64())
_READ_STEP = msgspec.json.Decoder(Step).decode
_READ_COMPUTED = msgspec.json.Decoder(Tokens | None).decode


@dataclass(frozen=True)
class _Check:
    """An entry of the ledger about a run directory; see table load_check."""

    check_name: str
    ok: bool | None
    note: str
    value: int | None = None
    total: int | None = None


_Rows = tuple[pa.Table, list[_Check]]
_COMPLETE = "run complete"
_SECRETS = f"secrets in {RUN}"
_BAD_LINE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def _read_steps(file: Path) -> _Rows:
    """The steps in a file, without damaged lines and duplicate steps.

    A line whose computed tokens are wrong is kept without them.

    Raises:
        Unusable: the file cannot be read.
    """
    lines = _lines(file)
    found: dict[tuple[int, int], tuple[Step, Tokens | None]] = {}
    errors = []
    for number, line in lines:
        step, computed, error = None, None, ""
        try:
            step = _READ_STEP(line)
            computed = _READ_COMPUTED(step.computed)
        except _BAD_LINE as raised:
            error = f"computed: {raised}" if step else str(raised)
        if step and found.setdefault((step.rank, step.number), own := (step, computed)) is not own:
            error = f"step {step.number} of rank {step.rank} again"
        if error:
            errors.append(f"line {number}: {error}")
    steps = [step for step, _ in found.values()]
    numbers = {
        name: pa.array([getattr(step, name) for step in steps], pa.int64())
        for name in ("rank", "number", "begin_unix_ns")
    }
    tokens: dict[str, list[Tokens | None]] = {
        "requests": [step.requests or {} for step in steps],
        "computed": [computed for _, computed in found.values()],
    }
    maps = {
        name: pa.array([None if one is None else list(one.items()) for one in each], _TOKENS)
        for name, each in tokens.items()
    }
    return pa.table(numbers | maps), _damaged_lines(STEPS, errors, len(lines))


_SAMPLE_COLUMNS = SchedulerSample.__struct_fields__
_READ_SAMPLE = msgspec.json.Decoder(SchedulerSample).decode


def _read_scheduler(file: Path) -> _Rows:
    """The steps and samples of schedulers in a file, without damaged and duplicate lines.

    Raises:
        Unusable: the file cannot be read.
    """
    lines = _lines(file)
    found: dict[tuple[int, int | None, int], SchedulerSample] = {}
    errors = []
    for number, line in lines:
        try:
            read = _READ_SAMPLE(line)
        except _BAD_LINE as error:
            errors.append(f"line {number}: {error}")
            continue
        key = (read.rank, read.number, read.unix_ns if read.number is None else 0)
        if found.setdefault(key, read) is not read:
            errors.append(f"line {number}: step {read.number} of rank {read.rank} again")
    columns = {
        name: pa.array([getattr(read, name) for read in found.values()], pa.int64())
        for name in _SAMPLE_COLUMNS
    }
    return pa.table(columns), _damaged_lines(SCHEDULER, errors, len(lines))


def _lines(file: Path) -> list[tuple[int, bytes]]:
    """The lines of a file that are not empty, with their numbers; raises Unusable."""
    text = read_bytes(file).removeprefix(_BYTE_ORDER_MARK)
    return [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]


def _damaged_lines(name: str, errors: Sequence[str], lines: int) -> list[_Check]:
    """An entry of the ledger about the lines that were not read; none if all were."""
    if not errors:
        return []
    note = f"lines read; lines in the file; {errors[0]}"
    return [_Check(name, False, note, lines - len(errors), lines)]


def _read_log(run: RunDirectory, file: Path) -> _Rows:
    return read_log(file, run.document.value.get("start_unix_ns")), []


_TABLES = ("run_iteration", "scheduler_sample", "telemetry_sample", "log_message", "peak_file")


def add_runs(con: duckdb.DuckDBPyConnection, runs: Mapping[Path, RunDirectory]) -> None:
    """Adds the files of the run directory of each trace, or replaces them."""
    for run in {run.path: run for run in runs.values()}.values():
        path = str(run.path)
        con.execute("DELETE FROM run_file WHERE path = ?", [path])
        for table in _TABLES:
            con.execute(f"DELETE FROM {table} WHERE run = ?", [path])
        metrics, checks = _metrics(run.path / METRICS)
        con.execute("INSERT INTO run_file VALUES (?, ?, ?)", [path, run.document.text, metrics])
        checks += [
            *_run_json_checks(run),
            *_add_rows(con, run, "run_iteration", STEPS, _read_steps),
            *_add_rows(con, run, "scheduler_sample", SCHEDULER, _read_scheduler),
            *_add_rows(con, run, "telemetry_sample", TELEMETRY, lambda f: (read_telemetry(f), [])),
            *_add_rows(con, run, "log_message", LOG, partial(_read_log, run)),
            *_add_peaks(con, run),
        ]
        _write_checks(con, run, checks)


def _run_json_checks(run: RunDirectory) -> Iterator[_Check]:
    document: Mapping[str, Any] = run.document.value
    complete = document.get("status") == "complete"
    note = f"incomplete: {document.get('reason')}"
    note = "the run was recorded completely" if complete else note
    yield _Check(_COMPLETE, complete, note, value=int(complete), total=1)
    if left_out := len(run.secrets):
        note = f"values that look like secrets and are left out, or cut: {listed(run.secrets)}"
        yield _Check(_SECRETS, None, note, value=left_out, total=left_out)
    try:
        checked(document, RunFacts)
        described_model(document)
    except Unusable as error:
        yield _partly_unknown(RUN, error)


def _metrics(file: Path) -> tuple[str | None, list[_Check]]:
    """The text of metrics.json, None if it is missing or not JSON."""
    if not file.exists():
        return None, []
    text = None
    try:
        document = json_document(file)
        text = document.text
        checked(document.value, Metrics)
    except Unusable as error:
        return text, [(_partly_unknown if text else _not_loaded)(file.name, error)]
    return text, []


def _partly_unknown(file: str, error: Unusable) -> _Check:
    return _Check(file, False, f"{error}; values of other types than expected are unknown")


def _not_loaded(file: str, error: Unusable) -> _Check:
    return _Check(file, False, f"not loaded: {error}")


def _add_rows(
    con: duckdb.DuckDBPyConnection,
    run: RunDirectory,
    table: str,
    name: str,
    read: Callable[[Path], _Rows],
) -> list[_Check]:
    """Adds the rows of a file to a table, with the column `run`."""
    file = run.path / name
    if not file.exists():
        return []
    try:
        rows, checks = read(file)
    except Unusable as error:
        return [_not_loaded(name, error)]
    con.register("incoming", rows)
    con.execute(f"INSERT INTO {table} BY NAME SELECT ? AS run, * FROM incoming", [str(run.path)])
    con.unregister("incoming")
    return checks


def _add_peaks(con: duckdb.DuckDBPyConnection, run: RunDirectory) -> list[_Check]:
    file = run.path / PEAKS
    try:
        if file.exists():
            add_peak_file(con, file, str(run.path), *peaks_document(read_text(file)))
    except Unusable as error:
        return [_not_loaded(PEAKS, error)]
    return []


def _write_checks(
    con: duckdb.DuckDBPyConnection, run: RunDirectory, checks: Iterable[_Check]
) -> None:
    """Replaces the entries about a run, which belong to its first rank."""
    of_run = "SELECT rank FROM trace WHERE starts_with(path, ? || '/') ORDER BY rank"
    numbers = [rank for (rank,) in con.execute(of_run, [str(run.path)]).fetchall()]
    con.execute(
        "DELETE FROM load_check "
        "WHERE (rank IS NULL OR list_contains(?, rank)) AND list_contains(?, check_name)",
        [numbers, [_COMPLETE, _SECRETS, RUN, METRICS, STEPS, SCHEDULER, TELEMETRY, LOG, PEAKS]],
    )
    con.executemany(
        "INSERT INTO load_check VALUES (?, ?, ?, ?, ?, ?)",
        [(numbers[0], r.check_name, r.value, r.total, r.ok, r.note) for r in checks],
    )
