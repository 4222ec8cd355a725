"""What traceql makes of rocprofv3's outputs: launches, graphs, memory, counters, files of a run."""

import gzip
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rocpd_like import (
    FORMS,
    HSA,
    PID,
    Record,
    Recorded,
    allocation,
    call,
    copy,
    kernel,
    marker,
    suffix,
    write,
    write_csv,
)
from shared_files import shared_file

import traceql

_START = 1_000
_GRAPH = {"graphExec": "0x55aa"}
# Two launches of a graph, of which the second lost a kernel: dispatch 5 is nowhere.
_GRAPHS = [
    marker("execute_context_0(0)_generation_1(1)", ts=_START, dur=900, correlation=1),
    call("hipGraphLaunch", ts=_START + 10, dur=50, correlation=2, args=_GRAPH),
    kernel("Cijk_a", ts=_START + 100, dur=10, correlation=2, dispatch=1),
    kernel("wvSplitK_b", ts=_START + 120, dur=10, correlation=2, dispatch=2),
    kernel("Cijk_a", ts=_START + 140, dur=10, correlation=2, dispatch=3),
    call("hipGraphLaunch", ts=_START + 200, dur=50, correlation=3, args=_GRAPH),
    kernel("Cijk_a", ts=_START + 300, dur=10, correlation=3, dispatch=4),
    kernel("Cijk_a", ts=_START + 340, dur=10, correlation=3, dispatch=6),
    call("hipGraphLaunch", ts=_START + 400, dur=50, correlation=4, args={"graphExec": "0x66bb"}),
    # A call of HSA inside the call of HIP that launched the kernel.
    call("hipLaunchKernel", ts=_START + 500, dur=40, correlation=5),
    Record(HSA, "hsa_signal_store_screlease", _START + 510, 10, PID, correlation=6),
    kernel("attn_fwd", ts=_START + 600, dur=20, correlation=6, dispatch=7, device=0),
    copy("DtoH", ts=_START + 700, dur=5, correlation=7, bytes=64),
    marker("a mark", ts=_START + 710, dur=0, correlation=8),
    allocation(ts=_START + 720, dur=5, address=4096, bytes=100, device=0),
    allocation(ts=_START + 730, dur=5, address=8192, bytes=30, device=0),
    allocation(ts=_START + 740, dur=5, address=4096),
]


def of_graphs(form: str) -> traceql.Trace:
    """The database of the process with graphs."""

    def load(path: Path) -> None:
        process = Recorded(PID, _GRAPHS)
        traceql.load(write(path.with_suffix("") / "in", form, process), path)

    return traceql.Trace(shared_file(f"rocprof-graphs-{form}.duckdb", load))


def values(trace: traceql.Trace, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql).rows()]


@pytest.mark.parametrize(
    "form",
    [pytest.param(form, marks=[pytest.mark.slow] if n else []) for n, form in enumerate(FORMS)],
)
def test_launches_graphs_memory_and_marks_are_those_of_the_process(form: str) -> None:
    trace = of_graphs(form)
    lost = ("graph launches that lost kernels", 1, 3, False)
    unknown = ("graph launches that lost kernels", 0, 3, None)  # CSV does not name the graph
    ledger = """
        SELECT check_name, value, total, ok FROM ledger
        WHERE check_name LIKE '%graph%' OR check_name = 'dispatches missing' ORDER BY ALL
    """
    assert values(trace, ledger) == [
        ("activities of graph launches", 5, 3, None),
        ("dispatches missing", 1, 7, False),
        unknown if form == "csv" else lost,
        ("graph launches without kernels", 1, 3, False),
    ]
    assert values(trace, "SELECT COUNT(*) FROM kernel WHERE in_graph") == [(5,)]
    launched = "SELECT kernel.name, launch.name FROM kernel JOIN launch ON launch_id = launch.id"
    hsa = values(trace, f"{launched} WHERE NOT in_graph")
    assert hsa == [("attn_fwd", "hipLaunchKernel")]  # the call of HIP around that of HSA
    # A free has the size of its allocation.
    memory = "SELECT device, device_type, bytes_delta, allocated, address FROM memory ORDER BY ts"
    assert values(trace, memory) == [
        (0, "hip", 100, 100, 4096),
        (0, "hip", 30, 130, 8192),
        (0, "hip", -100, 30, 4096),
    ]
    assert values(trace, "SELECT name, tid FROM instant") == [("a mark", PID)]
    assert b"SECRET" not in trace.path.read_bytes()
    counted = values(trace, "SELECT ok FROM ledger WHERE check_name SIMILAR TO '(events|dur).*'")
    assert set(counted) == {(True,)}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_process_with_two_gpus_is_two_ranks_with_the_threads_that_launched(
    form: str, tmp_path: Path
) -> None:
    listed = []
    for device, tid in ((0, 11), (3, 12)):
        where: dict[str, Any] = {"correlation": 10 + device, "device": device, "tid": tid}
        listed += [call(ts=_START + device, dur=2, **where), kernel(ts=_START + 10, dur=5, **where)]
    server = Recorded(7, [call(ts=_START, dur=1, correlation=10, tid=7)])
    write(tmp_path / "in", form, Recorded(PID, listed), server)
    loaded = traceql.load(tmp_path / "in", tmp_path / "run.duckdb")
    # A process without a GPU is with the first rank, or skipped where it has a file of its own.
    assert len(loaded.others) == (form == "csv")
    with traceql.Trace(tmp_path / "run.duckdb") as trace:
        rows = values(
            trace,
            "SELECT kernel.rank, kernel.device, launch.tid FROM kernel "
            "JOIN launch ON launch_id = launch.id ORDER BY ALL",
        )
        devices = values(trace, "SELECT device_name, rank FROM trace ORDER BY rank")
    assert [row[1:] for row in rows] == [(0, 11), (3, 12)]
    assert len(devices) == 2


@pytest.mark.slow
def test_packed_csv_of_several_processes_is_distinguished_by_their_guid(tmp_path: Path) -> None:
    # As `rocpd convert` writes it, with a column before the others.
    for pid, device in ((7, 0), (8, 1)):
        records = [call(ts=_START, dur=5, correlation=1), kernel(ts=_START, dur=5, correlation=1)]
        on_gpu = [replace(record, device=device) for record in records]
        write_csv(tmp_path / str(pid), Recorded(pid, on_gpu))
    folder = tmp_path / "in"
    folder.mkdir()
    for kind in ("kernel_trace", "hip_api_trace", "agent_info"):
        lines: list[str] = []
        for pid in (7, 8):
            header, *rows = (tmp_path / str(pid) / f"{pid}_{kind}.csv").read_text().splitlines()
            lines = [*(lines or [f'"Guid",{header}']), *(f'"guid-{pid}",{row}' for row in rows)]
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"out_{kind}.csv.gz").write_bytes(gzip.compress(text.encode()))
    traceql.load(folder, tmp_path / "run.duckdb")
    with traceql.Trace(tmp_path / "run.duckdb") as trace:
        found = values(
            trace,
            "SELECT CAST(metadata ->> 'process' AS BIGINT), kernel.device, launch_id IS NOT NULL "
            "FROM kernel JOIN trace USING (rank) ORDER BY ALL",
        )
    assert found == [(7, 0, True), (8, 1, True)]


def of_counters(tmp_path: Path, form: str) -> Path:
    """A kernel with a counter of two units of its GPU; in JSON it is with the counter alone."""
    path = write(tmp_path / "in", form, Recorded(PID, [kernel(ts=_START, dur=5)]))
    if form == "rocpd":
        with closing(sqlite3.connect(path)) as con, con:
            pmc, samples = (f"rocpd_{table}{suffix(PID)}" for table in ("info_pmc", "pmc_event"))
            con.execute(f"INSERT INTO {pmc} (id, agent_id, name) VALUES (4, 2, 'WAVES')")
            sql = f"INSERT INTO {samples} (event_id, pmc_id, value) VALUES (1, 4, ?)"
            con.executemany(sql, [(2.0,), (3.5,)])
        return path
    document = json.loads(path.read_text())
    (process,) = document["rocprofiler-sdk-tool"]
    (dispatch,) = process["buffer_records"].pop("kernel_dispatch")
    process["counters"] = [{"id": {"handle": 4}, "name": "WAVES"}]
    units = [{"counter_id": {"handle": 4}, "value": value} for value in (2.0, 3.5)]
    record = {"thread_id": PID, "dispatch_data": dispatch, "records": units}
    process["callback_records"] = {"counter_collection": [record]}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("form", ["rocpd", "json"])
def test_counters_of_kernels_are_samples(form: str, tmp_path: Path) -> None:
    traceql.load(of_counters(tmp_path, form), tmp_path / "run.duckdb")
    with traceql.Trace(tmp_path / "run.duckdb") as trace:
        assert values(trace, "SELECT name, dur FROM kernel") == [("Cijk_gemm", 5)]
        assert values(trace, "SELECT name, value FROM counter") == [("WAVES", 5.5)]
        assert values(trace, "SELECT check_name FROM ledger WHERE ok IS FALSE") == []
