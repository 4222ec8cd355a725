"""Exports of other people's programs: numbers counted by SQLite alone, ledger, ranks, secrets."""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import databases
import nsys_like
import pytest
from command_line import called
from nsys_like import Row, call, global_id, kernel, nvtx
from nsys_samples import content, in_memory
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as PerfettoTrace
from shared_files import shared_file

import traceql
from traceql.sql.registry import definitions

SAMPLES = databases.ROOT.parent / "shared" / "profilers" / "nsys"
_TINY = "torch-tiny-2026.1.sqlite"
_OWN_KERNEL = "saxpy-mpi-2022.2.sqlite.gz"
# Kernels, and the time in which one ran at least, ns, by process and device: what the projects that
# published the samples state, to which the second count below agrees.
KERNELS = {
    "h100-2gpu-1s.sqlite": {(111, 0): (1721, 22_385_000), (112, 1): (1721, 22_444_000)},
    _TINY: {(91186, 0): (2, 4_000)},
    "power-iteration-nvtx-2025.3.sqlite.gz": {(9946, 0): (3689, 1_131_743_000)},
    _OWN_KERNEL: {(1230493, 0): (5, 88_573_000)},
}
SECRET = b"TRACEQL_CANARY"  # in the environment of the recorded programs, which exports repeat


def sample(name: str) -> Path:
    if not (SAMPLES / name).is_file():
        pytest.skip(f"no export {name}")
    return SAMPLES / name


def busy(intervals: list[tuple[int, int]]) -> tuple[int, int]:
    """How many intervals there are, and how long at least one lasted, counted one by one."""
    total, covered_to = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, covered_to))
        covered_to = max(covered_to, end)
    return len(intervals), total


def by_gpu(rows: Any) -> dict[tuple[int, int], tuple[int, int]]:
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for pid, device, start, end in rows:
        found.setdefault((pid, device), []).append((start, end))
    return {gpu: busy(intervals) for gpu, intervals in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_each_gpu_are_those_that_sqlite_counts_and_nothing_is_lost(name: str) -> None:
    """Only a program's own kernel has no class."""
    path = sample(name)
    with in_memory(path) as con:
        sql = 'SELECT globalPid / 16777216 % 16777216, deviceId, start, "end" FROM '
        counted = by_gpu(con.execute(sql + nsys_like.KERNEL))
    assert {gpu: (n, round(ns, -3)) for gpu, (n, ns) in counted.items()} == KERNELS[name]
    with traceql.open(shared_file(f"{name}.duckdb", lambda made: traceql.load(path, made))) as run:
        rows = run.sql("""
            SELECT CAST(metadata ->> 'process' AS BIGINT), device, ts, kernel.ts + dur
            FROM kernel
            JOIN trace USING (rank)
            WHERE kind = 'kernel'
        """)
        assert by_gpu(row.values() for row in rows.rows()) == counted
        failed = run.sql("SELECT check_name, value FROM ledger WHERE ok IS FALSE").rows()
        (own,) = run.sql("SELECT SUM(dur) AS dur FROM kernel WHERE name LIKE '%saxpy%'").rows()
        assert run.sql("SELECT 1 FROM ledger WHERE ok AND check_name = 'events kernel'").rows()
    expected = {"check_name": "time classified other", "value": own["dur"]}
    assert failed == ([expected] if name == _OWN_KERNEL else [])


_RUN = (
    call(ts=10, dur=2, correlation=7, pid=201),
    nvtx("forward", ts=5, dur=20, pid=201),
    kernel("gemm", ts=20, dur=5, correlation=7, pid=201),
    call("cudaGraphLaunch_v10000", ts=11, dur=3, correlation=7, pid=202),
    kernel("softmax", ts=30, dur=6, correlation=7, pid=202, deviceId=1),
    nvtx("backward", ts=2, dur=30, pid=202),
    Row("PROCESSES", {"globalPid": global_id(201), "pid": 201, "name": "worker A"}),
    Row("PROCESSES", {"globalPid": global_id(202), "pid": 202, "name": "worker B"}),
)
_SLICES = "SELECT ts, dur, name, category FROM slice"


def with_secrets(folder: Path) -> Path:
    """An export whose texts repeat the environment."""
    value = f"HF_TOKEN=two words\n{SECRET.decode()}"
    export = nsys_like.write(
        folder / "run.sqlite",
        *_RUN,
        Row("StringIds", {"id": 999, "value": f"PATH=/bin\0{value}"}),
        Row("META_DATA_CAPTURE", {"name": "LAUNCH:ENVIRONMENT_VARIABLE", "value": value}),
        Row("META_DATA_CAPTURE", {"name": "CUDA_GRAPH_TRACE_OPTIONS:MODE", "value": value}),
        Row("META_DATA_EXPORT", {"name": "EXPORT_INPUT", "value": value}),
        *(Row("DIAGNOSTIC_EVENT", {"severity": n, "text": f"A='x {value}"}) for n in (1, 2, 3)),
        Row("PROCESSES", {"globalPid": global_id(201), "pid": 201, "name": f"env {value} python"}),
        Row("ThreadNames", {"nameId": f"main {value}", "globalTid": global_id(201, 201)}),
    )
    with closing(sqlite3.connect(export)) as con, con:
        con.execute("UPDATE META_DATA_EXPORT SET value = ? WHERE name <> 'EXPORT_INPUT'", [value])
    return export


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("name", [_TINY, _OWN_KERNEL, None])
def test_the_environment_of_the_recorded_program_appears_nowhere(
    name: str | None, tmp_path: Path
) -> None:
    export = sample(name) if name else with_secrets(tmp_path / "in")
    assert SECRET in content(export)
    (folder := tmp_path / "out").mkdir()
    database, file, page = (folder / f"run.{kind}" for kind in ("duckdb", "pftrace", "html"))
    done = [
        called("load", export, "-o", database),
        called("info", database),
        called("info", "--format", "json", database),
        called("export", "perfetto", database, "-o", file),
        called("report", database, "-o", page),
    ]
    assert [one.returncode for one in done] == [0] * len(done)
    assert not any(SECRET in one.stdout + one.stderr for one in done)
    assert sorted(folder.iterdir()) == sorted([database, file, page])
    assert SECRET not in database.read_bytes() + page.read_bytes()
    exported = b"".join(
        zlib.decompress(packet.compressed_packets)
        if packet.HasField("compressed_packets")
        else packet.SerializeToString()
        for packet in PerfettoTrace.FromString(file.read_bytes()).packet
    )
    assert SECRET not in exported
    # Text in the database may be compressed, so its bytes alone prove little.
    with traceql.open(database) as trace:
        counted = "SELECT COUNT(*) AS n FROM {} AS t WHERE CAST(t AS VARCHAR) LIKE $text"
        for table in (name for name, one in definitions().items() if one.kind.is_kept):
            rows = trace.select(counted.format(table), {"text": f"%{SECRET.decode()}%"}).rows()
            assert rows == [{"n": 0}], table
        # The same searches find what is there.
        (row,) = trace.sql("SELECT MIN(name) AS name FROM kernel WHERE kind = 'kernel'").rows()
        found = trace.select(counted.format("slice"), {"text": f"%{row['name']}%"}).rows()
    assert found[0]["n"] > 0
    assert row["name"].encode() in exported


@pytest.mark.slow
def test_perfetto_sees_the_slices_of_each_rank_at_the_same_times(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    traceql.load(nsys_like.write(tmp_path / "run.sqlite", *_RUN), database)
    expected = {
        0: [(0 + 3, 20, "forward"), (5 + 3, 2, "cudaLaunchKernel"), (15 + 3, 5, "gemm")],
        1: [(0, 30, "backward"), (9, 3, "cudaGraphLaunch"), (28, 6, "softmax")],
    }
    with traceql.open(database) as trace:
        for rank, slices in expected.items():
            with trace.perfetto(rank=rank) as tp:
                assert sorted((row.ts, row.dur, row.name) for row in tp.query(_SLICES)) == slices
                processes = tp.query("SELECT name FROM process WHERE name LIKE 'worker%'")
                assert [row.name for row in processes] == [f"worker {'AB'[rank]}"]
        with trace.perfetto() as tp:
            assert next(row.name for row in tp.query(f"{_SLICES} ORDER BY ts")) == "forward"
        with pytest.raises(traceql.TraceqlError, match="has no rank 5"):
            trace.perfetto(rank=5)
