"""Databases of Ascend's profiler: numbers counted by SQLite alone, sums of the profiler, ranks."""

import gzip
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ascend_db_like
import databases
import pytest
from ascend_db_like import Row, call, computed, event, operation, task
from command_line import called
from shared_files import shared_file

import traceql
from traceql.readers.registry import reader_of
from traceql.readers.sqlite_file import created_tables, table_names

SAMPLES = databases.ROOT.parent / "shared" / "profilers" / "ascend" / "alexnet-910b-level1-db"
# What the profiler itself says of each rank in analysis.db, us: computing, communication, its part
# that nothing overlaps, and free.
SUMS = {
    0: (8903.431, 102108.1, 98071.947, 25258.144),
    1: (8915.634, 98590.19, 94556.05, 25840.499),
}
_TASKS, _COMPUTED, _COPIES, _OPERATIONS, _PARTS = 552, 187, 24, 4, 296


def sample(rank: int) -> Path:
    output = SAMPLES / f"rank{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
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


def values(trace: traceql.Trace, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql).rows()]


def read_by_sqlite(rank: int, sql: str) -> list[tuple[Any, ...]]:
    """Rows of the database, of which SQLite gets a copy in memory, not in write-ahead mode."""
    content = sample(rank).read_bytes()
    with closing(sqlite3.connect(":memory:")) as con:
        con.deserialize(content[:18] + b"\1\1" + content[20:])
        return con.execute(sql).fetchall()


def union_ns(intervals: list[tuple[int, int]]) -> int:
    """How long at least one of the intervals lasted, counted one by one."""
    total, covered_to = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, covered_to))
        covered_to = max(covered_to, end)
    return total


def test_the_tables_that_the_file_creates_are_those_that_it_has() -> None:
    for rank in (0, 1):
        assert set(created_tables(sample(rank))) == table_names(sample(rank))


_LOADED = """
    SELECT ts + base_time_ns AS ts, ts + base_time_ns + dur AS end_ts
    FROM kernel
    JOIN trace USING (rank)
    WHERE rank = {rank} AND {what}
    ORDER BY ALL
"""


@pytest.mark.slow
@pytest.mark.parametrize("rank", SUMS)
def test_compute_tasks_are_those_that_sqlite_counts(rank: int, trace: traceql.Trace) -> None:
    expected = read_by_sqlite(
        rank,
        "SELECT startNs, endNs FROM TASK WHERE globalTaskId IN "
        "(SELECT globalTaskId FROM COMPUTE_TASK_INFO) ORDER BY 1, 2",
    )
    what = "kind = 'kernel' AND category <> 'collective'"
    found = values(trace, _LOADED.format(rank=rank, what=what))
    assert len(found) == _COMPUTED
    assert found == expected
    assert union_ns(found) == round(SUMS[rank][0] * 1000)


@pytest.mark.parametrize("rank", SUMS)
def test_operations_of_communication_count_once(rank: int, trace: traceql.Trace) -> None:
    """Neither their parts nor the rows around them are in table kernel."""
    expected = read_by_sqlite(rank, "SELECT startNs, endNs FROM COMMUNICATION_OP ORDER BY 1, 2")
    found = values(trace, _LOADED.format(rank=rank, what="category = 'collective'"))
    assert len(found) == _OPERATIONS
    assert found == expected
    assert union_ns(found) == round(SUMS[rank][1] * 1000)
    ((kernels,),) = values(trace, f"SELECT COUNT(*) FROM kernel WHERE rank = {rank}")
    assert kernels == _COMPUTED + _COPIES + _OPERATIONS


@pytest.mark.parametrize("rank", SUMS)
def test_every_row_of_every_table_of_events_is_a_slice(rank: int, trace: traceql.Trace) -> None:
    found: dict[str, int] = defaultdict(int)
    for cat, n in values(
        trace, f"SELECT cat, COUNT(*) FROM slice WHERE rank = {rank} GROUP BY cat"
    ):
        found[cat.split("_")[0] if cat.startswith("cann") else cat] = n + (
            found["cann"] if cat.startswith("cann") else 0
        )
    ((pytorch,),) = read_by_sqlite(rank, "SELECT COUNT(*) FROM PYTORCH_API")
    ((cann,),) = read_by_sqlite(rank, "SELECT COUNT(*) FROM CANN_API")
    of_pytorch = ("cpu_op", "user_annotation", "python_function", "enqueue", "dequeue")
    of_device = ("kernel", "gpu_memcpy", "npu_event", "npu_task")
    assert sum(found[cat] for cat in of_pytorch) == pytorch == 2460
    assert found["cann"] == cann
    assert sum(found[cat] for cat in of_device) == _TASKS
    assert (found["communication"], found["communication_task"]) == (_OPERATIONS, _PARTS)


def test_the_ledger_is_clean_and_has_the_sums_of_the_profiler(trace: traceql.Trace) -> None:
    assert values(trace, "SELECT check_name, value, total FROM ledger WHERE ok IS FALSE") == []
    rows = values(
        trace,
        "SELECT rank, check_name, value, total FROM ledger "
        "WHERE check_name LIKE 'steps of analysis.db: %' ORDER BY ALL",
    )
    names = ("Communication", "Communication(Not Overlapped)", "Computing", "Free")
    expected = [
        (rank, f"steps of analysis.db: {name}", round(us * 1000), round(us * 1000))
        for rank, (computing, communication, exposed, free) in SUMS.items()
        for name, us in zip(names, (communication, exposed, computing, free), strict=True)
    ]
    assert rows == expected


@pytest.mark.parametrize("rank", SUMS)
def test_each_activity_has_the_call_of_its_connection(rank: int, trace: traceql.Trace) -> None:
    expected = read_by_sqlite(
        rank,
        """
        WITH activity AS (
            SELECT TASK.startNs, connectionId
            FROM TASK
            JOIN STRING_IDS ON id = taskType
            WHERE value = 'MEMCPY_ASYNC'
                OR globalTaskId IN (SELECT globalTaskId FROM COMPUTE_TASK_INFO)
            UNION ALL
            SELECT startNs, connectionId FROM COMMUNICATION_OP
        )
        SELECT activity.startNs, CANN_API.startNs
        FROM activity
        JOIN CANN_API USING (connectionId)
        ORDER BY 1, 2
        """,
    )
    found = values(
        trace,
        f"""
        SELECT kernel.ts + base_time_ns, launch.ts + base_time_ns
        FROM kernel
        JOIN trace USING (rank)
        JOIN launch ON launch_id = launch.id
        WHERE kernel.rank = {rank}
        ORDER BY ALL
        """,
    )
    assert len(expected) == _COMPUTED + _COPIES + _OPERATIONS
    assert found == expected


def test_collectives_match_over_the_ranks(trace: traceql.Trace) -> None:
    rows = values(
        trace,
        """
        SELECT match_id, list(rank ORDER BY rank), MAX(ranks_found), MAX(group_size), MAX(bytes)
        FROM collective
        GROUP BY match_id
        ORDER BY match_id
        """,
    )
    counts = read_by_sqlite(0, "SELECT count FROM COMMUNICATION_OP ORDER BY startNs")
    assert rows == [(n, [0, 1], 2, 8, 4 * count) for n, (count,) in enumerate(counts)]


@pytest.mark.parametrize("rank", SUMS)
def test_samples_of_counters_are_those_of_the_tables(rank: int, trace: traceql.Trace) -> None:
    columns = {
        "AICORE_FREQ": 1, "HBM": 1, "NPU_MEM": 2, "LLC": 2, "ACC_PMU": 4, "SOC_BANDWIDTH_LEVEL": 2,
        "NPU_MODULE_MEM": 1, "MEMORY_RECORD": 3,
    }  # fmt: skip
    expected = sum(
        n * read_by_sqlite(rank, f"SELECT COUNT(*) FROM {table}")[0][0]
        for table, n in columns.items()
    ) + len(_STEP_SUMS)
    assert values(trace, f"SELECT COUNT(*) FROM counter WHERE rank = {rank}") == [(expected,)]
    highest = read_by_sqlite(rank, "SELECT MAX(bandwidth) FROM HBM")
    sql = "SELECT MAX(value), ANY_VALUE(unit) FROM counter WHERE rank = {} AND name LIKE 'HBM%'"
    assert values(trace, sql.format(rank)) == [(highest[0][0], "B/s")]
    sql = "SELECT value, unit FROM counter WHERE rank = {} AND name = 'step_trace_time Computing'"
    assert values(trace, sql.format(rank)) == [(SUMS[rank][0], "us")]


_STEP_SUMS = (
    "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage",
    "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing",
)  # fmt: skip


@pytest.mark.parametrize("rank", SUMS)
def test_allocations_are_in_table_memory(rank: int, trace: traceql.Trace) -> None:
    (expected,) = read_by_sqlite(
        rank,
        """
        SELECT
            COUNT(allocationTime) + COUNT(releaseTime),
            SUM(size) - SUM(CASE WHEN releaseTime IS NOT NULL THEN size END),
            MAX(allocationTotalAllocated)
        FROM OP_MEMORY
        WHERE streamPtr IS NOT NULL
        """,
    )
    (found,) = values(
        trace,
        f"SELECT COUNT(*), SUM(bytes_delta), MAX(allocated) FROM memory WHERE rank = {rank}",
    )
    assert found == expected


_TEXT = SAMPLES.parent / "alexnet-910b-level1-text" / "rank0_ascend_pt"
_DESCRIBED = """
    SELECT
        regexp_replace(slice.name, '__[0-9]+_', '__') AS name,
        category,
        kernel.stream,
        args ->> '$."Type"' AS type,
        args ->> '$."Input Shapes"' AS shapes,
        args ->> '$."Output Data Types"' AS types,
        args ->> '$."Accelerator Core"' AS core,
        kernel.bytes
    FROM kernel
    JOIN slice USING (id)
    WHERE kernel.rank = 0 AND category <> 'collective'
    ORDER BY kernel.stream, kernel.ts
"""


@pytest.mark.slow
def test_both_forms_of_one_program_have_the_same_kernels(
    trace: traceql.Trace, tmp_path: Path
) -> None:
    """The samples are two runs of one program, so only times and numbers of groups differ."""
    if not _TEXT.is_dir():
        pytest.skip("no text form of the program")
    traceql.load(_TEXT, tmp_path / "text.duckdb")
    counted = (
        "SELECT cat, COUNT(*) FROM slice WHERE rank = 0 AND cat NOT LIKE 'cann%' "
        "GROUP BY cat ORDER BY cat"
    )
    with traceql.open(tmp_path / "text.duckdb") as text:
        of_text, in_text = values(text, _DESCRIBED), dict(values(text, counted))
    of_db, in_db = values(trace, _DESCRIBED), dict(values(trace, counted))
    assert of_db == of_text
    # The db also has the rows that enclose others: one an operation and one a mixed kernel.
    assert in_db.pop("npu_task") - in_text.pop("npu_task") == 17
    assert in_db == in_text


_RUN = (
    event("ProfilerStep#3", ts=0, dur=500),
    event("aten::mm", ts=10, dur=50, connectionId=1, inputShapes="2,3;3,4", inputDtypes="float"),
    Row("CONNECTION_IDS", {"id": 1, "connectionId": 7}),
    call("launch", ts=12, dur=5, connection=7),
    *computed("aclnnMm_MatMulV2", "MatMulV2", ts=100, dur=50, number=1, connection=7),
    call("aclrtMemcpyAsync", ts=60, dur=5, connection=8, kind=20000),
    task("MEMCPY_ASYNC", ts=160, dur=10, number=2, connection=8),
    Row("MEMCPY_INFO", {"globalTaskId": 2, "size": 4096, "memcpyOperation": 0}),
    task("EVENT_WAIT", ts=170, dur=20, number=3),
    call("launch", ts=70, dur=5, connection=1001),
    *operation("hcom_allReduce__1_0_1", [("Notify_Wait", 200, 60, 3), ("Memcpy", 260, 20, 3)],
               ts=200, dur=90, op=1),
    task("AI_CORE", ts=199, dur=92, number=9, connection=1001, streamId=4),
    Row("MSTX_EVENTS", {"startNs": 20, "endNs": 30, "eventType": 1, "message": "forward",
                        "globalTid": 100 << 32 | 101}),
    Row("MSTX_EVENTS", {"startNs": 25, "endNs": 25, "eventType": 0, "message": "mark",
                        "globalTid": 100 << 32 | 101}),
    Row("STEP_TIME", {"id": 3, "startNs": 0, "endNs": 500}),
    Row("AICORE_FREQ", {"deviceId": 0, "timestampNs": 5, "freq": 1800}),
    Row("META_DATA", {"name": "ENV_VARIABLES", "value": '{"TOKEN": "TRACEQL_CANARY"}'}),
)  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[traceql.Trace]:
    folder = tmp_path_factory.mktemp("ascend")
    path = ascend_db_like.write(folder / "ascend_pytorch_profiler_5.db", *_RUN, rank=5)
    traceql.load(path, folder / "run.duckdb")
    with traceql.open(folder / "run.duckdb") as opened:
        yield opened


@pytest.mark.slow
def test_tables_of_version_1_2_are_read(small: traceql.Trace) -> None:
    rows = values(
        small,
        "SELECT rank, ts, dur, name, kind, category, stream, bytes FROM kernel ORDER BY ts",
    )
    assert rows == [
        (5, 100, 50, "aclnnMm_MatMulV2", "kernel", "gemm", 2, None),
        (5, 160, 10, "MEMCPY_ASYNC", "memcpy", "memcpy", 2, 4096),
        (5, 200, 90, "hcom_allReduce_", "kernel", "collective", 4, None),
    ]
    assert values(small, "SELECT check_name FROM ledger WHERE ok IS FALSE") == []
    assert values(small, "SELECT wait_ns, transfer_ns, late_place FROM collective") == [(70, 20, 3)]


@pytest.mark.slow
def test_ranges_and_marks_of_the_program_are_loaded(small: traceql.Trace) -> None:
    assert values(small, "SELECT name, ts, dur FROM slice WHERE cat = 'mstx'") == [
        ("forward", 20, 10)
    ]
    assert values(small, "SELECT name, ts FROM instant") == [("mark", 25)]


def test_the_environment_of_the_program_is_not_loaded(small: traceql.Trace) -> None:
    for table in ("trace", "slice", "load_check", "instant", "counter", "track"):
        sql = f"SELECT COUNT(*) FROM {table} AS t WHERE CAST(t AS VARCHAR) LIKE '%CANARY%'"
        assert values(small, sql) == [(0,)]


def test_a_step_is_loaded_once(small: traceql.Trace) -> None:
    sql = "SELECT name, ts, dur FROM slice WHERE name LIKE 'ProfilerStep%'"
    assert values(small, sql) == [("ProfilerStep#3", 0, 500)]


@pytest.mark.slow
def test_the_rank_is_that_of_the_map_then_of_the_file_name(tmp_path: Path) -> None:
    for folder, map_rank, expected in (
        ("map", 2, (2, "RANK_DEVICE_MAP")),
        ("name", None, (4, "file name")),
        ("none", -1, (4, "file name")),
    ):
        path = tmp_path / folder / "ascend_pytorch_profiler_4.db"
        ascend_db_like.write(path, *_RUN, rank=map_rank)
        traceql.load(path, tmp_path / f"{folder}.duckdb")
        with traceql.open(tmp_path / f"{folder}.duckdb") as trace:
            rows = values(trace, "SELECT rank, metadata ->> 'rank_source' FROM trace")
            notes = values(
                trace, "SELECT ok FROM ledger WHERE check_name = 'statements of the rank'"
            )
        assert rows == [expected]
        assert notes == ([(False,)] if folder == "map" else [])


@pytest.mark.slow
def test_a_database_of_msprof_has_calls_and_tasks_alone(tmp_path: Path) -> None:
    rows = [row for row in _RUN if row.table not in ("PYTORCH_API", "STEP_TIME")]
    path = ascend_db_like.write(tmp_path / "msprof_20250109120000.db", *rows, rank=-1)
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        assert values(trace, "SELECT rank, metadata ->> 'rank_source' FROM trace") == [
            (0, "order of files")
        ]
        assert values(trace, "SELECT COUNT(*), COUNT(launch_id) FROM kernel") == [(3, 3)]
        assert values(trace, "SELECT check_name FROM ledger WHERE ok IS FALSE") == []


@pytest.mark.slow
def test_a_captured_graph_has_the_call_that_replayed_it(tmp_path: Path) -> None:
    rows = (
        call("aclmdlRIExecuteAsync", ts=0, dur=5, connection=70, kind=20000),
        *computed("MatMulV2", "MatMulV2", ts=10, dur=5, number=1, modelId=3, taskId=1),
        *computed("SwiGlu", "SwiGlu", ts=15, dur=5, number=2, modelId=3, taskId=2),
        call("aclmdlRIExecuteAsync", ts=30, dur=5, connection=71, kind=20000),
        *computed("MatMulV2", "MatMulV2", ts=40, dur=5, number=3, modelId=3, taskId=1),
        *computed("SwiGlu", "SwiGlu", ts=45, dur=5, number=4, modelId=3, taskId=2),
    )
    path = ascend_db_like.write(tmp_path / "ascend_pytorch_profiler_0.db", *rows)
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        found = values(
            trace,
            "SELECT kernel.ts, launch.ts, in_graph FROM kernel "
            "LEFT JOIN launch ON launch_id = launch.id ORDER BY 1",
        )
    assert found == [(10, 0, True), (15, 0, True), (40, 30, True), (45, 30, True)]


def test_shapes_and_call_stacks_are_those_of_the_event(trace: traceql.Trace) -> None:
    """The sample is of a torch_npu that mixed up the columns of shapes and types."""
    ((dims, types, chain),) = read_by_sqlite(
        0,
        "SELECT dims.value, types.value, callchainId FROM PYTORCH_API "
        "JOIN STRING_IDS AS dims ON dims.id = inputDtypes "
        "JOIN STRING_IDS AS types ON types.id = inputShapes "
        "JOIN STRING_IDS AS name ON name.id = PYTORCH_API.name "
        "WHERE name.value = 'aten::linear' ORDER BY startNs LIMIT 1",
    )
    calls = read_by_sqlite(
        0,
        "SELECT value FROM PYTORCH_CALLCHAINS AS chain JOIN STRING_IDS ON STRING_IDS.id = stack "
        f"WHERE chain.id = {chain} ORDER BY stackDepth",
    )
    sql = "SELECT args FROM slice WHERE rank = 0 AND name = 'aten::linear' ORDER BY ts LIMIT 1"
    args = json.loads(values(trace, sql)[0][0])
    assert (args["Input Dims"], args["Input type"]) == (dims, types)
    assert "float" in args["Input type"]
    assert args["Call stack"].split(";\r\n") == [call for (call,) in calls]


def test_databases_are_told_apart_by_their_tables(tmp_path: Path) -> None:
    renamed = ascend_db_like.write(tmp_path / "copy.sqlite", *_RUN)
    assert reader_of(renamed).name == "ascend_db"
    packed = tmp_path / "copy.db.gz"
    packed.write_bytes(gzip.compress(renamed.read_bytes()))
    assert reader_of(packed).name == "ascend_db"
    other = tmp_path / "msprof_notes.db"
    with closing(sqlite3.connect(other)) as con, con:
        con.execute("CREATE TABLE song (id INTEGER, title TEXT)")
    assert reader_of(other).name == "nsys"
    done = called("load", other, "-o", tmp_path / "run.duckdb")
    assert b"nor an export of Nsight Systems" in done.stderr
