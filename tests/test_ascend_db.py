"""Databases of Ascend's profiler: numbers counted by SQLite alone, sums of the profiler, ranks."""

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ascend_db_like
import databases
import pytest
from ascend_db_like import THREAD, call, computed, event, operation, row, task
from ascend_like import values
from command_line import called
from shared_files import shared_file
from unions import length, union

import traceql
from traceql.readers.registry import reader_of
from traceql.readers.sqlite_file import created_tables, table_names

SAMPLES = databases.ROOT.parent / "shared" / "profilers" / "ascend"
# What the profiler itself says of each rank in analysis.db, us: communication, its part that
# nothing overlaps, computing, and free.
SUMS = {
    0: (102108.1, 98071.947, 8903.431, 25258.144),
    1: (98590.19, 94556.05, 8915.634, 25840.499),
}
_COMPUTED, _COPIES, _OPERATIONS = 187, 24, 4


def sample(rank: int) -> Path:
    output = SAMPLES / f"alexnet-910b-level1-db/rank{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    path = output / f"ascend_pytorch_profiler_{rank}.db"
    if not path.is_file():
        pytest.skip("no databases of Ascend's profiler")
    return path


@pytest.fixture(scope="module")
def trace() -> Iterator[traceql.Trace]:
    """Both ranks of the sample, by their folders."""
    folders = [sample(rank).parents[1] for rank in (0, 1)]
    made = shared_file("ascend-db.duckdb", lambda path: traceql.load(folders, path))
    with traceql.open(made) as opened:
        yield opened


def read_by_sqlite(rank: int, sql: str) -> list[tuple[Any, ...]]:
    """Rows of the database, of which SQLite gets a copy in memory, not in write-ahead mode."""
    content = sample(rank).read_bytes()
    with closing(sqlite3.connect(":memory:")) as con:
        con.deserialize(content[:18] + b"\1\1" + content[20:])
        return con.execute(sql).fetchall()


def rows_by_sqlite(rank: int, table: str) -> int:
    return int(read_by_sqlite(rank, f"SELECT COUNT(*) FROM {table}")[0][0])


def test_the_tables_that_the_file_creates_are_those_that_it_has() -> None:
    assert set(created_tables(sample(0))) == table_names(sample(0))


@pytest.mark.slow
@pytest.mark.parametrize("rank", SUMS)
def test_kernels_are_compute_tasks_copies_and_whole_operations(
    rank: int, trace: traceql.Trace
) -> None:
    """Neither the parts of operations nor the rows around them are kernels."""
    for what, rows, ns, table in (
        ("kind = 'kernel' AND category <> 'collective'", _COMPUTED, SUMS[rank][2], "TASK"),
        ("category = 'collective'", _OPERATIONS, SUMS[rank][0], "COMMUNICATION_OP"),
    ):
        found = values(
            trace,
            "SELECT ts + base_time_ns, ts + base_time_ns + dur FROM kernel JOIN trace USING (rank) "
            f"WHERE rank = {rank} AND {what} ORDER BY ALL",
        )
        described = "WHERE globalTaskId IN (SELECT globalTaskId FROM COMPUTE_TASK_INFO)"
        where = described if table == "TASK" else ""
        sql = f"SELECT startNs, endNs FROM {table} {where} ORDER BY 1, 2"
        assert found == read_by_sqlite(rank, sql)
        assert (len(found), length(union(found))) == (rows, round(ns * 1000))
    ((kernels,),) = values(trace, f"SELECT COUNT(*) FROM kernel WHERE rank = {rank}")
    assert kernels == _COMPUTED + _COPIES + _OPERATIONS


def test_the_ledger_is_clean_and_has_the_sums_of_the_profiler(trace: traceql.Trace) -> None:
    assert values(trace, "SELECT check_name, value, total FROM ledger WHERE ok IS FALSE") == []
    sql = """
        SELECT rank, check_name, value, total FROM ledger
        WHERE check_name LIKE 'steps of analysis.db: %' ORDER BY ALL
    """
    names = ("Communication", "Communication(Not Overlapped)", "Computing", "Free")
    assert values(trace, sql) == [
        (rank, f"steps of analysis.db: {name}", round(us * 1000), round(us * 1000))
        for rank, sums in SUMS.items()
        for name, us in zip(names, sums, strict=True)
    ]


@pytest.mark.parametrize("rank", SUMS)
def test_each_activity_has_the_call_of_its_connection(rank: int, trace: traceql.Trace) -> None:
    described = "globalTaskId IN (SELECT globalTaskId FROM COMPUTE_TASK_INFO)"
    activities = f"""
        SELECT startNs, connectionId FROM TASK JOIN STRING_IDS ON id = taskType
        WHERE value = 'MEMCPY_ASYNC' OR {described}
        UNION ALL SELECT startNs, connectionId FROM COMMUNICATION_OP
    """
    calls = f"FROM ({activities}) AS activity JOIN CANN_API AS call USING (connectionId)"
    sql = f"SELECT activity.startNs, call.startNs {calls} ORDER BY 1, 2"
    expected = read_by_sqlite(rank, sql)
    sql = f"""
        SELECT kernel.ts + base_time_ns, launch.ts + base_time_ns
        FROM kernel JOIN trace USING (rank) JOIN launch ON launch_id = launch.id
        WHERE kernel.rank = {rank} ORDER BY ALL
    """
    assert len(expected) == _COMPUTED + _COPIES + _OPERATIONS
    assert values(trace, sql) == expected


def test_collectives_match_over_the_ranks(trace: traceql.Trace) -> None:
    sql = """
        SELECT match_id, list(rank ORDER BY rank), MAX(ranks_found), MAX(group_size), MAX(bytes)
        FROM collective GROUP BY match_id ORDER BY match_id
    """
    counts = read_by_sqlite(0, "SELECT count FROM COMMUNICATION_OP ORDER BY startNs")
    expected = [(n, [0, 1], 2, 8, 4 * count) for n, (count,) in enumerate(counts)]
    assert values(trace, sql) == expected


@pytest.mark.parametrize("rank", SUMS)
def test_samples_of_counters_are_those_of_the_tables(rank: int, trace: traceql.Trace) -> None:
    columns = {
        "AICORE_FREQ": 1, "HBM": 1, "NPU_MEM": 2, "LLC": 2, "ACC_PMU": 4, "SOC_BANDWIDTH_LEVEL": 2,
        "NPU_MODULE_MEM": 1, "MEMORY_RECORD": 3,
    }  # fmt: skip
    of_step = 9  # columns of table StepTraceTime
    expected = sum(n * rows_by_sqlite(rank, table) for table, n in columns.items()) + of_step
    ((highest,),) = read_by_sqlite(rank, "SELECT MAX(bandwidth) FROM HBM")
    sql = f"""
        SELECT COUNT(*), MAX(value) FILTER (name LIKE 'HBM%' AND unit = 'B/s'),
            MAX(value) FILTER (name = 'step_trace_time Computing' AND unit = 'us')
        FROM counter WHERE rank = {rank}
    """
    assert values(trace, sql) == [(expected, highest, SUMS[rank][2])]


@pytest.mark.parametrize("rank", SUMS)
def test_allocations_are_in_table_memory(rank: int, trace: traceql.Trace) -> None:
    sql = """
        SELECT
            COUNT(allocationTime) + COUNT(releaseTime),
            SUM(size) - SUM(CASE WHEN releaseTime IS NOT NULL THEN size END),
            MAX(allocationTotalAllocated)
        FROM OP_MEMORY WHERE streamPtr IS NOT NULL
    """
    expected = read_by_sqlite(rank, sql)
    sql = f"SELECT COUNT(*), SUM(bytes_delta), MAX(allocated) FROM memory WHERE rank = {rank}"
    assert values(trace, sql) == expected


@pytest.mark.slow
def test_both_forms_of_one_program_have_the_same_kernels(
    trace: traceql.Trace, tmp_path: Path
) -> None:
    """The samples are two runs of one program, so only times and numbers of groups differ."""
    folder = SAMPLES / "alexnet-910b-level1-text" / "rank0_ascend_pt"
    if not folder.is_dir():
        pytest.skip("no text form of the program")
    traceql.load(folder, tmp_path / "text.duckdb")
    described = """
        SELECT
            regexp_replace(slice.name, '__[0-9]+_', '__'), category, kernel.stream, kernel.bytes,
            args ->> ['Type', 'Input Shapes', 'Output Data Types', 'Accelerator Core']
        FROM kernel JOIN slice USING (id) WHERE kernel.rank = 0 AND category <> 'collective'
        ORDER BY kernel.stream, kernel.ts
    """
    counted = """
        SELECT cat, COUNT(*) FROM slice WHERE rank = 0 AND cat NOT LIKE 'cann%' GROUP BY cat
    """
    with traceql.open(tmp_path / "text.duckdb") as text:
        of_text, in_text = values(text, described), dict(values(text, counted))
    of_db, in_db = values(trace, described), dict(values(trace, counted))
    assert of_db == of_text
    # The db also has the rows that enclose others: one an operation and one a mixed kernel.
    assert in_db.pop("npu_task") - in_text.pop("npu_task") == 17
    assert in_db == in_text


_RUN = (
    event("ProfilerStep#3", ts=0, dur=500),
    event("aten::mm", ts=10, dur=50, connectionId=1, inputShapes="2,3;3,4", inputDtypes="float"),
    row("CONNECTION_IDS", 1, 7),
    call("launch", ts=12, dur=5, connection=7),
    *computed("aclnnMm_MatMulV2", "MatMulV2", ts=100, dur=50, number=1, connection=7),
    call("aclrtMemcpyAsync", ts=60, dur=5, connection=8, kind=20000),
    task("MEMCPY_ASYNC", ts=160, dur=10, number=2, connection=8),
    row("MEMCPY_INFO", 2, 4096, 0),
    task("EVENT_WAIT", ts=170, dur=20, number=3),
    call("launch", ts=70, dur=5, connection=1001),
    *operation("hcom_allReduce__1_0_1", [("Notify_Wait", 200, 60, 3), ("Memcpy", 260, 20, 3)],
               ts=200, dur=90, op=1),
    task("AI_CORE", ts=199, dur=92, number=9, connection=1001, streamId=4),
    row("MSTX_EVENTS", 20, 30, 1, "forward", THREAD),
    row("MSTX_EVENTS", 25, 25, 0, "mark", THREAD),
    row("STEP_TIME", 3, 0, 500),
    row("AICORE_FREQ", 0, 5, 1800),
    row("META_DATA", "ENV_VARIABLES", '{"TOKEN": "TRACEQL_CANARY"}'),
)  # fmt: skip


def loaded(path: Path, *rows: ascend_db_like.Row, rank: int | None = 0) -> traceql.Trace:
    ascend_db_like.write(path, *rows, rank=rank)
    traceql.load(path, path.with_suffix(".duckdb"))
    return traceql.open(path.with_suffix(".duckdb"))


@pytest.mark.slow
def test_tables_of_version_1_2_are_read_but_the_environment_is_not(tmp_path: Path) -> None:
    kernels = "SELECT rank, ts, dur, name, kind, category, stream, bytes FROM kernel ORDER BY ts"
    with loaded(tmp_path / "ascend_pytorch_profiler_5.db", *_RUN, rank=5) as small:
        assert values(small, kernels) == [
            (5, 100, 50, "aclnnMm_MatMulV2", "kernel", "gemm", 2, None),
            (5, 160, 10, "MEMCPY_ASYNC", "memcpy", "memcpy", 2, 4096),
            (5, 200, 90, "hcom_allReduce_", "kernel", "collective", 4, None),
        ]
        assert values(small, "SELECT check_name FROM ledger WHERE ok IS FALSE") == []
        waits = values(small, "SELECT wait_ns, transfer_ns, late_place FROM collective")
        assert waits == [(70, 20, 3)]
        ranges = "SELECT name, ts, dur FROM slice WHERE cat IN ('mstx', 'user_annotation')"
        assert sorted(values(small, ranges)) == [("ProfilerStep#3", 0, 500), ("forward", 20, 10)]
        assert values(small, "SELECT name, ts FROM instant") == [("mark", 25)]
        for table in ("trace", "slice", "load_check", "instant", "counter", "track"):
            sql = f"SELECT COUNT(*) FROM {table} AS t WHERE CAST(t AS VARCHAR) LIKE '%CANARY%'"
            assert values(small, sql) == [(0,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "map_rank", "expected", "failed"),
    [
        ("ascend_pytorch_profiler_4", 2, (2, "RANK_DEVICE_MAP"), [("statements of the rank",)]),
        ("ascend_pytorch_profiler_4", -1, (4, "file name"), []),
        ("msprof_20250109120000", -1, (0, "order of files"), []),
    ],
)
def test_the_rank_is_that_of_the_map_then_of_the_file_name(
    name: str, map_rank: int, expected: tuple[int, str], failed: list[Any], tmp_path: Path
) -> None:
    with loaded(tmp_path / f"{name}.db", *_RUN, rank=map_rank) as trace:
        assert values(trace, "SELECT rank, metadata ->> 'rank_source' FROM trace") == [expected]
        assert values(trace, "SELECT check_name FROM ledger WHERE ok IS FALSE") == failed
        assert values(trace, "SELECT COUNT(*), COUNT(launch_id) FROM kernel") == [(3, 3)]


def test_shapes_and_call_stacks_are_those_of_the_event(trace: traceql.Trace) -> None:
    """The sample is of a torch_npu that mixed up the columns of shapes and types."""
    sql = """
        SELECT dims.value, types.value, callchainId FROM PYTORCH_API
        JOIN STRING_IDS AS dims ON dims.id = inputDtypes
        JOIN STRING_IDS AS types ON types.id = inputShapes
        JOIN STRING_IDS AS name ON name.id = PYTORCH_API.name
        WHERE name.value = 'aten::linear' ORDER BY startNs LIMIT 1
    """
    ((dims, types, chain),) = read_by_sqlite(0, sql)
    sql = f"""
        SELECT value FROM PYTORCH_CALLCHAINS AS chain JOIN STRING_IDS ON STRING_IDS.id = stack
        WHERE chain.id = {chain} ORDER BY stackDepth
    """
    calls = read_by_sqlite(0, sql)
    sql = "SELECT args FROM slice WHERE rank = 0 AND name = 'aten::linear' ORDER BY ts LIMIT 1"
    args = json.loads(values(trace, sql)[0][0])
    assert (args["Input Dims"], args["Input type"]) == (dims, types)
    assert "float" in args["Input type"]
    assert args["Call stack"].split(";\r\n") == [call for (call,) in calls]


def test_databases_are_recognised_by_their_tables(tmp_path: Path) -> None:
    renamed = ascend_db_like.write(tmp_path / "copy.sqlite", *_RUN)
    assert reader_of(renamed).name == "ascend_db"
    packed = tmp_path / "copy.db.gz"
    packed.write_bytes(gzip.compress(renamed.read_bytes()))
    assert reader_of(packed).name == "ascend_db"
    other = tmp_path / "msprof_notes.db"
    with closing(sqlite3.connect(other)) as con, con:
        con.execute("CREATE TABLE song (id INTEGER, title TEXT)")
    done = called("load", other, "-o", tmp_path / "run.duckdb")
    assert b"nor an export of Nsight Systems" in done.stderr
