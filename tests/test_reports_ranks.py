"""Who is who: ranks by evidence, host processes, replicas, and cycles of one process."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import traces
from databases import ROOT
from fewer_tables import tables_on_first_use  # noqa: F401

import traceql
from traceql.errors import RankConflict
from traceql.present.pftrace import export_perfetto
from traceql.readers.file_names import ranks_by_number, ranks_by_place
from traceql.readers.trace_processor import arrow_table, open_trace_processor

SHARED = ROOT.parent / "shared"


def rows(run: traceql.Run, sql: str) -> list[tuple[Any, ...]]:
    return run.select(sql).fetchall()


def recording(
    path: Path,
    *,
    pid: int = traces.PID,
    device: int | None = 0,
    start: float = 0,
    kernels: int = 3,
    job: tuple[int, int] | None = None,
    name: str = "gemm",
    more: Sequence[traces.Event] = (),
) -> Path:
    """Kernels of 10 us, 10 us apart, each launched by an operator of 5 us; on the host alone
    without a device."""
    events = [*more]
    for n in range(kernels):
        ts = start + 20 * n
        events.append(traces.host("aten::mm", ts=ts, dur=5))
        if device is not None:
            number = 1 + n
            events.append(traces.launch(ts=ts + 1, correlation=number))
            events.append(traces.kernel(name, ts=ts + 5, dur=10, correlation=number, device=device))
    events = [event | {"pid": pid} if event["cat"] != "kernel" else event for event in events]
    about: dict[str, Any] = {"baseTimeNanoseconds": 1_795_000_000_000_000_000}
    if job:
        about["distributedInfo"] = {"rank": job[0], "world_size": job[1]}
    return traces.write(path, *events, **about)


def opened(paths: Path | Sequence[Path], database: Path) -> traceql.Run:
    return traceql.open(traceql.load(paths, database).database)


FILES = """
    SELECT trace.rank, parse_filename(path), world_size, COUNT(slice.id)
    FROM trace
    LEFT JOIN slice ON trace.rank IS NOT DISTINCT FROM slice.rank
    GROUP BY ALL
    ORDER BY ALL
"""
RANKS = "SELECT rank, world_size, dp_rank, parse_filename(path) FROM trace ORDER BY ALL"


def report(name: str) -> Path:
    folder = SHARED / "reports" / name / "traces"
    if not folder.exists():
        pytest.skip("needs shared/reports")
    return folder


def test_front_end_of_the_report(tmp_path: Path) -> None:
    run = opened(report("front-end-beside-ranks"), tmp_path / "run.duckdb")
    assert rows(run, "SELECT rank, world_size FROM trace ORDER BY ALL") == [
        (0, 2),
        (1, 2),
        (None, None),
    ]
    assert rows(
        run,
        "SELECT rank, SUM(transfer_ns), SUM(wait_ns), COUNT(match_id) FROM collective "
        "GROUP BY rank ORDER BY rank",
    ) == [(0, 600_000, 200_000, 20), (1, 600_000, 0, 20)]
    (waited,) = run.query("comm.waits").rows()
    assert (waited["rank"], waited["late_rank"], waited["operations"]) == (0, 1, 20)
    assert rows(run, "SELECT COUNT(*) FROM ledger WHERE ok = FALSE") == [(0,)]


def test_replicas_of_the_report(tmp_path: Path) -> None:
    run = opened(report("replicas-without-a-common-job"), tmp_path / "run.duckdb")
    busy = (
        "SELECT rank, dp_rank, SUM(dur) FROM kernel JOIN trace USING (rank) GROUP BY ALL ORDER BY 1"
    )
    assert rows(run, busy) == [(0, 0, 300_000), (1, 1, 450_000)]


def test_ranks_in_file_names_of_the_report(tmp_path: Path) -> None:
    run = opened(report("ranks-in-file-names"), tmp_path / "run.duckdb")
    busy = "SELECT rank, COUNT(*), SUM(dur) FROM kernel GROUP BY rank ORDER BY rank"
    assert rows(run, busy) == [(n, n + 1, 10_000 * (n + 1)) for n in range(12)]


def test_cycles_of_the_report_are_one_rank(tmp_path: Path) -> None:
    folder = report("cycles-of-one-worker")
    with pytest.raises(RankConflict) as stop:
        traceql.load(folder, tmp_path / "run.duckdb")
    assert "process 321 of node1 was recorded several times" in str(stop.value)
    assert not (tmp_path / "run.duckdb").exists()
    span = "SELECT MAX(ts + dur) - MIN(ts), SUM(dur) FROM kernel"
    for number, file in enumerate(sorted(folder.iterdir()), start=1):
        assert f"{file.name} -o cycle{number}.duckdb" in str(stop.value)
        run = opened(file, tmp_path / f"cycle{number}.duckdb")
        assert rows(run, span) == [(1_090_000, 600_000)]


# --- host processes --------------------------------------------------------------------------


def server(folder: Path) -> list[Path]:
    """A front end and two ranks that state what they are."""
    return [
        recording(folder / "node1_7.async_llm.1795000000000.pt.trace.json", pid=7, device=None),
        *(
            recording(folder / f"worker_{rank}.json", pid=8 + rank, device=rank, job=(rank, 2))
            for rank in range(2)
        ),
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)], ids=str)
def test_a_host_process_is_no_rank_whatever_is_loaded_first(
    order: Sequence[int], tmp_path: Path
) -> None:
    files = server(tmp_path / "traces")
    for number in order:
        run = opened(files[number], tmp_path / "run.duckdb")
    assert rows(run, FILES) == [
        (0, "worker_0.json", 2, 9),
        (1, "worker_1.json", 2, 9),
        (None, files[0].name, None, 3),
    ]
    assert rows(
        run, "SELECT rank, value, total, ok FROM ledger WHERE check_name = 'events cpu_op'"
    ) == [
        (0, 3, 3, True),
        (1, 3, 3, True),
        (None, 3, 3, True),
    ]
    assert rows(run, "SELECT DISTINCT rank FROM step ORDER BY rank") == [(0,), (1,)]
    facts = {row["fact"]: row["value"] for row in run.query("overview.recording").rows()}
    assert facts["ranks"] == "2 of 2 loaded"
    assert facts["host processes"] == files[0].name
    assert "2 ranks" in repr(run)


@pytest.mark.usefixtures("without_pictures")
def test_what_is_made_of_a_run_has_its_host_processes(tmp_path: Path) -> None:
    run = opened(server(tmp_path / "traces"), tmp_path / "run.duckdb")
    of_host = """
        SELECT top.name AS top, track.name AS thread, COUNT(*) AS events
        FROM slice
        JOIN track ON slice.track_id = track.id
        JOIN track AS threads ON track.parent_id = threads.id
        JOIN track AS top ON threads.parent_id = top.id
        WHERE category = 'cpu_op'
        GROUP BY 1, 2
        ORDER BY 1
    """
    with open_trace_processor(export_perfetto(run, tmp_path / "run.pftrace")) as tp:
        shown = [tuple(row.values()) for row in arrow_table(tp, of_host).to_pylist()]
    assert shown == [
        ("host processes", "7: thread 100", 3),
        ("rank 0 · GPU 0", "thread 100", 3),
        ("rank 1 · GPU 1", "thread 100", 3),
    ]
    run.report(tmp_path / "report.html")
    with run.excerpt(to_ns=20_000) as part:
        assert rows(part, "SELECT rank, COUNT(*) FROM slice GROUP BY rank ORDER BY rank") == [
            (0, 3),
            (1, 3),
            (None, 1),
        ]


@pytest.mark.parametrize("order", [(2, 0, 1)], ids=str)
def test_a_run_directory_may_have_the_file_of_a_front_end(
    order: Sequence[int], tmp_path: Path
) -> None:
    files = server(tmp_path / "run" / "traces")
    ranks = [{"rank": rank, "trace": f"traces/worker_{rank}.json"} for rank in range(2)]
    run_json = {"schema_version": 1, "kind": "vllm-server", "ranks": ranks}
    (tmp_path / "run" / "run.json").write_text(json.dumps(run_json))
    for number in order:
        run = opened(files[number], tmp_path / "run.duckdb")
    assert rows(run, "SELECT rank, world_size FROM trace ORDER BY rank") == [
        (0, 2), (1, 2), (None, None),
    ]  # fmt: skip
    checks = "SELECT rank, note FROM ledger WHERE check_name LIKE 'rank of %' ORDER BY rank"
    assert rows(run, checks) == [(0, "rank from run.json"), (1, "rank from run.json")]
    once = "SELECT check_name FROM ledger GROUP BY rank, check_name HAVING COUNT(*) > 1"
    assert rows(run, once) == []


def test_the_ledger_counts_all_host_processes_together(tmp_path: Path) -> None:
    files = server(tmp_path / "traces")
    files.append(recording(tmp_path / "traces" / "main.json", pid=6, device=None, kernels=4))
    run = opened(files, tmp_path / "run.duckdb")
    ((value, total, ok, note),) = rows(
        run,
        "SELECT value, total, ok, note FROM ledger "
        "WHERE rank IS NULL AND check_name = 'events cpu_op'",
    )
    assert (value, total, ok) == (7, 7, True)
    assert note.endswith("main.json, node1_7.async_llm.1795000000000.pt.trace.json")


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"device": None}, None),
        ({"device": 1}, 1),
        # What only launches is a rank whose kernels were not recorded.
        ({"device": None, "more": [traces.launch(ts=1, correlation=9)]}, 1),
    ],
)
def test_what_uses_a_gpu_is_a_rank(
    other: dict[str, Any], expected: int | None, tmp_path: Path
) -> None:
    recording(tmp_path / "traces" / "a.json", pid=1)
    recording(tmp_path / "traces" / "b.json", pid=2, **other)
    run = opened(tmp_path / "traces", tmp_path / "run.duckdb")
    assert rows(run, "SELECT rank FROM trace WHERE path LIKE '%b.json'") == [(expected,)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], [0, 1]),
        (["a", "b", "node1_7.async_llm.17"], [0, 1, None]),
        (["a", "node1_7.api_server.17"], [0, None]),
        (["node1_7.async_llm.17"], [0]),
        (["rank0", "rank1", "main"], [0, 1, None]),
    ],
)
def test_a_program_without_gpus_has_ranks(
    names: Sequence[str], expected: Sequence[int | None], tmp_path: Path
) -> None:
    for pid, name in enumerate(names, start=1):
        recording(tmp_path / "traces" / f"{name}.pt.trace.json", pid=pid, device=None)
    run = opened(tmp_path / "traces", tmp_path / "run.duckdb")
    found = dict(rows(run, "SELECT parse_filename(path), rank FROM trace"))
    assert [found[f"{name}.pt.trace.json"] for name in names] == expected


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1-TP-2.trace.json.gz", "1-TP-10.trace.json.gz"], [2, 10]),
        (["1-TP-3.trace.json.gz"], [3]),
        (["llama-tp4.json"], None),  # a size
        # Data-parallel attention: dp follows from tp.
        ([f"1-TP-{n}-DP-{n // 2}.trace.json.gz" for n in range(4)], [0, 1, 2, 3]),
        ([f"1-TP-{n}-DP-0-EP-{n // 2}.trace.json.gz" for n in range(4)], [0, 1, 2, 3]),
        ([f"1-TP-{n % 2}-PP-{n // 2}.trace.json.gz" for n in range(4)], [0, 1, 2, 3]),
        ([f"1-TP-{n % 2}-DP-{n // 2}.trace.json.gz" for n in range(4)], [0, 1, 2, 3]),
        # All three, in the order of SGLang and vLLM; in other names their order is unknown.
        ([f"1-TP-{n % 2}-DP-{n // 4}-PP-{n // 2 % 2}.trace.json" for n in range(8)], [*range(8)]),
        ([f"dp{n // 4}_pp{n // 2 % 2}_tp{n % 2}.json" for n in range(8)], list(range(8))),
        ([f"pp{n // 4}_dp{n // 2 % 2}_tp{n % 2}.json" for n in range(8)], None),
        # Not all places: sizes are unknown.
        (["1-TP-0-PP-0.trace.json.gz", "1-TP-1-PP-1.trace.json.gz"], None),
        (["pp3.json", "pp11.json"], [3, 11]),
        (["a-TP-0.trace.json.gz", "b-TP-0.trace.json.gz"], None),
    ],
)  # fmt: skip
def test_places_in_names_are_ranks_where_they_are_unambiguous(
    names: Sequence[str], expected: Sequence[int] | None
) -> None:
    files = [Path(name) for name in names]
    assert ranks_by_place(files) == (dict(zip(files, expected, strict=True)) if expected else {})


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["profile_9.json", "profile_10.json"], [9, 10]),
        (["trace_0.json", "trace_2.json", "trace_10.json"], [0, 2, 10]),
        (["0/trace.json", "1/trace.json"], [0, 1]),
        (["gpu-4/out.json", "gpu-5/out.json"], [4, 5]),
        (["x.0.17.json", "x.1.17.json"], [0, 1]),
        (["step_0.json", "step_100.json"], None),
        (["trace_1.json", "trace_2.json"], None),  # they count from 1
        (["run7_4001.json", "run7_4002.json"], None),  # processes
        (["node1_3.17.pt.trace.json", "node1_4.18.pt.trace.json"], None),
        (["trace_0.json", "trace_00.json"], None),
        (["profile_0.json"], None),
    ],
)
def test_a_number_in_names_is_the_rank_where_it_counts_ranks(
    names: Sequence[str], expected: Sequence[int] | None
) -> None:
    files = [Path(name) for name in names]
    assert ranks_by_number(files) == (dict(zip(files, expected, strict=True)) if expected else {})


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("rank{}_trace.json", "ranks 0 to 11 are from the file names"),
        ("17-TP-{}.trace.json.gz", "ranks 0 to 11 are from the file names"),
        ("profile_{}.json", "ranks 0 to 11 are from the file names"),
        ("nccl-rank={}.json", "ranks 0 to 11 are from the file names"),
        ("iteration_10/rank{}_trace.json", "ranks 0 to 11 are from the file names"),
    ],
)
def test_ranks_are_numbers_and_the_load_says_where_they_are_from(
    name: str, note: str, tmp_path: Path
) -> None:
    for rank in range(12):
        recording(tmp_path / name.format(rank), pid=50 + rank, kernels=rank + 1)
    loaded = traceql.load((tmp_path / name).parent, tmp_path / "run.duckdb")
    assert list(loaded.notes) == [note]
    run = traceql.open(loaded.database)
    assert rows(run, "SELECT rank, COUNT(*) FROM kernel GROUP BY rank ORDER BY rank") == [
        (rank, rank + 1) for rank in range(12)
    ]


def test_the_load_lists_ranks_that_it_numbered(tmp_path: Path) -> None:
    """By the device, else by the name; the names have processes and times."""
    for pid, device in ((11, 1), (12, 0), (9, 0)):
        recording(tmp_path / "t" / f"n_{pid}.1{pid}.pt.trace.json", pid=pid, device=device)
    two = traceql.load(sorted((tmp_path / "t").glob("n_1*")), tmp_path / "two.duckdb")
    assert "in the order of devices: rank 0 = n_12.112.pt.trace.json, rank 1 = n_11" in two.notes[0]
    three = traceql.load(tmp_path / "t", tmp_path / "three.duckdb")
    assert "in the order of files: rank 0 = n_9.19.pt.trace.json, rank 1 = n_11" in three.notes[0]


# --- replicas --------------------------------------------------------------------------------


def replica(folder: Path, file: str, **more: Any) -> Path:
    return recording(folder / f"{file}.pt.trace.json", **{"job": (0, 1), **more})


def test_replicas_have_ranks_that_are_unique_in_the_run(tmp_path: Path) -> None:
    files = [
        replica(tmp_path, "rank0.11", pid=11, device=1, kernels=4),
        replica(tmp_path, "rank0.12", pid=12, device=0, kernels=5),
        replica(tmp_path, "rank0.13", pid=13, device=2, kernels=6),
    ]
    loaded = traceql.load(files, tmp_path / "run.duckdb")
    (note,) = loaded.notes
    assert note.startswith("3 replicas, each of which counts its ranks from 0: rank 0 = rank0.12")
    counts = """
        SELECT rank, dp_rank, world_size, COUNT(*)
        FROM kernel JOIN trace USING (rank) GROUP BY ALL ORDER BY 1
    """
    checks = "SELECT rank, value, total FROM ledger WHERE check_name = 'replica' ORDER BY 1"
    with traceql.open(loaded.database) as run:
        assert rows(run, counts) == [(0, 0, 3, 5), (1, 1, 3, 4), (2, 2, 3, 6)]
        assert rows(run, checks) == [(n, n, 3) for n in range(3)]
    for file in files:  # one by one
        one = opened(file, tmp_path / "again.duckdb")
    assert rows(one, counts) == [(0, 0, 3, 5), (1, 1, 3, 4), (2, 2, 3, 6)]


@pytest.mark.parametrize(
    "names",
    [
        [f"dp{dp}_pp0_tp{tp}_rank{tp}.{9 - dp}" for dp in (0, 1) for tp in (0, 1)],
        [f"rank{tp}.{9 - dp}" for dp in (0, 1) for tp in (0, 1)],
    ],
    ids=["dp in the name", "devices"],
)
def test_operations_of_replicas_are_matched_in_their_replica(
    names: Sequence[str], tmp_path: Path
) -> None:
    """The second replica is 1 ms later; rank 1 of each is 3 us late."""
    for number, name in enumerate(names):
        dp, tp = divmod(number, 2)
        late = 1_000 * dp + 3 * tp
        operations = [
            traces.kernel(
                "cross_device_reduce_1stage", ts=20 * n + 17 + late, dur=13 - 3 * tp, device=number
            )
            for n in range(3)
        ]
        replica(
            tmp_path / "t", name, pid=20 + number, device=number, job=(tp, 2), start=1_000 * dp,
            more=operations,
        )  # fmt: skip
    run = opened(tmp_path / "t", tmp_path / "run.duckdb")
    assert rows(run, RANKS.replace("dp_rank, parse_filename(path)", "dp_rank")) == [
        (rank, 4, rank // 2) for rank in range(4)
    ]
    matched = """
        SELECT ranks, COUNT(*)
        FROM (SELECT list(rank ORDER BY rank) AS ranks FROM collective GROUP BY match_id)
        GROUP BY ranks ORDER BY ranks
    """
    assert rows(run, matched) == [([0, 1], 3), ([2, 3], 3)]
    assert rows(run, "SELECT DISTINCT rank, group_size, wait_ns FROM collective ORDER BY 1") == [
        (0, 2, 3_000), (1, 2, 0), (2, 2, 3_000), (3, 2, 0),
    ]  # fmt: skip


def test_operations_stay_in_the_replica_that_the_file_names_state(tmp_path: Path) -> None:
    """SGLang with two replicas of two ranks; the files have no metadata of their job."""
    for number in range(4):
        dp, tp = divmod(number, 2)
        operation = traces.kernel(
            "cross_device_reduce_1stage", ts=200 + 9 * dp, dur=5, device=number
        )
        name = f"17-TP-{tp}-DP-{dp}.trace.json"
        recording(tmp_path / "t" / name, pid=20 + number, device=number, more=[operation])
    run = opened(tmp_path / "t", tmp_path / "run.duckdb")
    assert rows(run, "SELECT rank, tp_rank, pp_rank, dp_rank FROM trace ORDER BY rank") == [
        (0, 0, 0, 0), (1, 1, 0, 0), (2, 0, 0, 1), (3, 1, 0, 1),
    ]  # fmt: skip
    assert rows(
        run, "SELECT list(rank ORDER BY rank) FROM collective GROUP BY match_id ORDER BY 1"
    ) == [([0, 1],), ([2, 3],)]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"job": (0, 2), "pid": 2, "device": 1}, "jobs of 1 and 2 ranks"),
        ({"pid": 2, "start": 90_000_000, "device": 1}, "90.0 s apart by different processes"),
        ({"pid": 2, "start": 5_000_000}, "5.0 s apart by different processes"),
        ({"kernels": 4}, "both are of one process"),
        ({"pid": 2, "device": 1, "name": "conv"}, "they run different kernels"),
    ],
)
def test_recordings_that_contradict_each_other_are_of_different_runs(
    other: dict[str, Any], why: str, tmp_path: Path
) -> None:
    files = [replica(tmp_path, "a", pid=traces.PID), replica(tmp_path, "b", **other)]
    with pytest.raises(RankConflict) as stop:
        traceql.load(files, tmp_path / "run.duckdb")
    message = str(stop.value)
    assert why in message
    assert all(str(file) in message for file in files)
    assert "-o other.duckdb" in message
    assert "\n" not in message
    assert not (tmp_path / "run.duckdb").exists()


def test_an_incomplete_replica_is_not_guessed(tmp_path: Path) -> None:
    files = [
        replica(tmp_path, f"rank{rank}.{pid}", pid=pid, device=pid, job=(rank, 2))
        for rank, pid in ((0, 1), (0, 2), (1, 3))
    ]
    with pytest.raises(RankConflict, match="unknown which files belong together"):
        traceql.load(files, tmp_path / "run.duckdb")


# --- cycles ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "has_job"),
    [
        ("node1_{pid}.{time}.pt.trace.json", False),
        ("rank{rank}.{time}.pt.trace.json", True),
        ("rank{rank}.{time}.pt.trace.json", False),
        ("17-TP-{rank}-{stage}.trace.json", False),
    ],
)
def test_a_stop_lists_the_files_of_each_cycle(name: str, has_job: bool, tmp_path: Path) -> None:
    """Two ranks and a front end, recorded three times; all in one folder."""
    cycles = []
    for cycle in range(3):
        stage = ("EXTEND", "DECODE", "IDLE")[cycle]
        start = 2_000_000 * cycle
        files = [
            recording(
                tmp_path / "t" / name.format(pid=40 + r, rank=r, time=100 + cycle, stage=stage),
                pid=40 + r, device=r, start=start + r, job=(r, 2) if has_job else None,
            )
            for r in range(2)
        ]  # fmt: skip
        front_end = f"node1_7.async_llm.{100 + cycle}.pt.trace.json"
        files.append(recording(tmp_path / "t" / front_end, pid=7, device=None, start=start))
        cycles.append(files)
    with pytest.raises(RankConflict, match="recorded several times") as stop:
        traceql.load(tmp_path / "t", tmp_path / "run.duckdb")
    _, *commands = str(stop.value).split("traceql load ")
    assert [sorted(Path(word).name for word in c.split(" -o ")[0].split()) for c in commands] == [
        sorted(file.name for file in files) for files in cycles
    ]
    run = opened(cycles[1], tmp_path / "cycle2.duckdb")
    assert rows(run, "SELECT rank, world_size FROM trace ORDER BY ALL") == [
        (0, 2), (1, 2), (None, None),
    ]  # fmt: skip
    with pytest.raises(RankConflict, match="recorded several times"):
        traceql.load(cycles[2], tmp_path / "cycle2.duckdb")
    assert rows(traceql.open(tmp_path / "cycle2.duckdb"), "SELECT COUNT(*) FROM trace") == [(3,)]


def test_recordings_of_gpu_activities_alone_have_cycles_too(tmp_path: Path) -> None:
    """No event of the host has a process; the rank and the device are the same."""
    for cycle in range(2):
        activity = traces.kernel(ts=2_000_000 * cycle, dur=10)
        job = {"rank": 0, "world_size": 1}
        traces.write(tmp_path / f"rank0.{cycle}.json", activity, distributedInfo=job)
    with pytest.raises(RankConflict, match="rank 0 was recorded several times"):
        traceql.load(tmp_path, tmp_path / "run.duckdb")


# --- recordings ------------------------------------------------------------------------------


def real(name: str) -> list[Path]:
    folder = SHARED / "traces" / name
    if not folder.exists():
        pytest.skip("needs shared/traces")
    return sorted(folder.glob("rank*"))


def copied(source: Path, path: Path, *, shift_us: int = 0, is_renamed: bool = False) -> Path:
    """A real recording later and of another process, or without what it states of its job."""
    document = json.loads(gzip.decompress(source.read_bytes()))
    if is_renamed:
        document.pop("distributedInfo")
    host = {event["pid"] for event in document["traceEvents"] if event.get("cat") == "cpu_op"}
    for event in document["traceEvents"]:
        if shift_us and "ts" in event:
            event["ts"] = round(event["ts"] + shift_us, 3)
        if shift_us and event.get("pid") in host:
            event["pid"] += 1_000
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    return path


OPERATIONS = """
    SELECT rank, COUNT(*), COUNT(match_id), SUM(wait_ns), SUM(transfer_ns), MAX(group_size)
    FROM collective GROUP BY rank ORDER BY rank
"""


@pytest.mark.slow
def test_copies_of_a_real_run_are_replicas_with_the_same_operations(tmp_path: Path) -> None:
    files = real("qwen3-8b-tp2-eager-stack-4layers")
    alone = rows(opened(files, tmp_path / "alone.duckdb"), OPERATIONS)
    for rank, file in enumerate(files):
        for number in range(2):
            name = f"rank{rank}.{20 - number}.pt.trace.json.gz"
            copied(file, tmp_path / "t" / name, shift_us=700 * number)
    run = opened(tmp_path / "t", tmp_path / "run.duckdb")
    assert rows(run, "SELECT rank, world_size, dp_rank FROM trace ORDER BY rank") == [
        (rank, 4, rank // 2) for rank in range(4)
    ]
    assert rows(run, OPERATIONS) == [*alone, *((2 + rank, *rest) for rank, *rest in alone)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("qwen3-8b-tp2-eager-stack-4layers", "17-TP-{}.trace.json.gz"),
        ("qwen3-8b-pp2-graph", "17-TP-0-PP-{}.trace.json.gz"),
        ("qwen3-8b-pp2-graph", "profile_{}.json.gz"),
    ],
)
def test_a_real_run_without_metadata_is_the_same_by_its_names(
    name: str, pattern: str, tmp_path: Path
) -> None:
    files = real(name)
    stated = rows(opened(files, tmp_path / "stated.duckdb"), OPERATIONS)
    for rank, file in enumerate(files):
        copied(file, tmp_path / "t" / pattern.format(rank), is_renamed=True)
    assert rows(opened(tmp_path / "t", tmp_path / "run.duckdb"), OPERATIONS) == stated


@pytest.mark.slow
def test_a_front_end_beside_a_real_run_changes_none_of_its_operations(tmp_path: Path) -> None:
    front_end = recording(
        tmp_path / "host_3.async_llm.17.pt.trace.json", pid=3, device=None, start=0
    )
    run = opened([front_end, *real("qwen3-32b-tp4-graph-nccl")], tmp_path / "run.duckdb")
    assert rows(run, "SELECT COUNT(*), COUNT(match_id), COUNT(wait_ns) FROM collective") == [
        (3_120, 3_120, 3_120)
    ]
    assert rows(run, "SELECT COUNT(rank), COUNT(*), MAX(world_size) FROM trace") == [(4, 5, 4)]
