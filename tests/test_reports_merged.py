"""Files into which a program has merged the files of several ranks."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import traces
from merging import LABELS, Merge, Trace, labelled, merged, offset

import traceql
from traceql.errors import RankConflict, TraceCorrupt
from traceql.readers.contract import ReadMode
from traceql.readers.registry import reader_of

SHARED = Path(__file__).parents[2] / "shared"
REPORT = SHARED / "reports" / "merged-ranks-in-one-file" / "merged-1795000000.trace.json.gz"
BOTH = pytest.mark.parametrize("reader", [ReadMode.PERFETTO, ReadMode.STREAM])


def write(path: Path, trace: Trace) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(trace))
    return path


def rows(run: traceql.Run, sql: str) -> list[tuple[Any, ...]]:
    return run.select(sql).fetchall()


def opened(path: Path | Sequence[Path], reader: str = "auto") -> traceql.Run:
    first = path if isinstance(path, Path) else path[0]
    return traceql.open(
        traceql.load(path, first.parent / f"{reader}.duckdb", reader=reader).database
    )


WINDOWS = """
    SELECT rank, world_size, device, COUNT(*), MAX(kernel.ts + dur) - MIN(kernel.ts), SUM(dur)
    FROM trace JOIN kernel USING (rank) GROUP BY ALL ORDER BY rank
"""
WAITS = "SELECT rank, COUNT(match_id), SUM(wait_ns) FROM collective GROUP BY rank ORDER BY rank"


@BOTH
@pytest.mark.skipif(not REPORT.exists(), reason="needs ../shared/reports")
def test_ranks_that_sglang_merged(reader: str, tmp_path: Path) -> None:
    loaded = traceql.load(REPORT, tmp_path / "run.duckdb", reader=reader)
    run = traceql.open(loaded.database)
    assert rows(run, WINDOWS) == [
        (0, 2, 0, 20, 1_440_000, 900_000),
        (1, 2, 1, 20, 1_430_000, 800_000),
    ]
    assert rows(run, WAITS) == [(0, 10, 100_000), (1, 10, 0)]
    assert rows(run, "SELECT DISTINCT ok FROM ledger WHERE NOT ok") == []
    assert rows(run, "SELECT rank, tp_rank FROM trace ORDER BY rank") == [(0, 0), (1, 1)]


# Of a run, whatever ids and pids are called.
SAME = [
    "SELECT rank, device, stream, ts, dur, name, category, role, layer, bytes FROM kernel",
    "SELECT rank, ts, dur, name, correlation FROM launch",
    "SELECT rank, ts, dur, gpu_ts, gpu_dur, phase FROM step",
    "SELECT rank, layer, ts, dur, busy_ns, comm_ns, idle_ns FROM layer",
    "SELECT rank, op, bytes, group_size, wait_ns, transfer_ns, match_id IS NULL FROM collective",
    "SELECT rank, ts, dur, cause FROM gap",
    "SELECT COUNT(*) FROM flow",
    "SELECT rank, world_size, device_name FROM trace",
    "SELECT cause, headline FROM finding",
]
RECORDED = {"qwen3-8b-pp2-graph": (0, 1), "qwen3-32b-tp4-graph-nccl": (1, 3)}


def contents(run: traceql.Run) -> list[list[tuple[Any, ...]]]:
    return [rows(run, f"{sql} ORDER BY ALL") for sql in SAME]


@BOTH
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("pid_of", [labelled("[TP{rank:02}] {pid}"), offset(10_000_000)])
@pytest.mark.skipif(not (SHARED / "traces").exists(), reason="needs ../shared/traces")
def test_recordings_are_the_same_merged(
    name: str, pid_of: Merge, reader: str, tmp_path: Path
) -> None:
    files = {n: SHARED / "traces" / name / f"rank{n}.pt.trace.json.gz" for n in RECORDED[name]}
    apart = traceql.open(traceql.load([*files.values()], tmp_path / "apart.duckdb").database)
    ranks = {n: json.loads(gzip.decompress(file.read_bytes())) for n, file in files.items()}
    together = opened(write(tmp_path / "merged.json", merged(ranks, pid_of)), reader)
    assert contents(together) == contents(apart)
    if name == "qwen3-8b-pp2-graph":
        assert together.run("pp.bubble").rows()
        assert not rows(together, "FROM finding WHERE headline LIKE '%3 stages%'")
    else:
        spans = rows(together, WINDOWS)
        assert [round(span / 1e5) for *_, span, _ in spans] == [1762, 1762]


def rank(number: int, *, first: int = 1, late: int = 0, of: int = 3) -> Trace:
    """Two kernels of 50 us and an all-reduce of the others: 20 us, later ranks begin 5 us later.

    Args:
        first: the first correlation.
        late: how much later everything begins, us.
    """
    events = []
    for n in range(3):
        ts, id_ = 1000 + 100 * n + late, first + n
        launch = traces.launch(ts=ts, correlation=id_) | {"pid": 4000 + number, "tid": 9}
        kernel = traces.kernel(ts=ts + 10, dur=50, correlation=id_, device=number)
        if n == 2:
            kernel = traces.all_reduce(
                ts=ts + 10 + 5 * number, dur=20 - 5 * number, ranks=range(of),
                correlation=id_, device=number,
            )  # fmt: skip
        arrow = traces.flow("s", ts=ts, pid=4000 + number, tid=9, number=id_)
        events += [launch, kernel, arrow]
        events.append(traces.flow("f", ts=kernel["ts"], pid=number, tid=7, number=id_))
    labels = {4000 + number: "CPU", number: f"GPU {number}"}
    for pid, label in labels.items():
        names = {"process_name": ("name", "python"), "process_labels": ("labels", label)}
        for name, (key, value) in names.items():
            events.append(
                {"ph": "M", "name": name, "pid": pid, "tid": 0, "ts": 0, "args": {key: value}}
            )
    events.append(
        {"ph": "i", "name": "Iteration Start", "pid": "Traces", "tid": "T", "ts": ts, "s": "g"}
    )
    job = {"rank": number, "world_size": of}
    return {"traceEvents": events, "distributedInfo": job, "baseTimeNanoseconds": 1}


def named(ranks: dict[int, Trace]) -> dict[int, Trace]:
    """Processes that are named after their rank, as programs that merge call them."""
    for number, trace in ranks.items():
        for event in trace["traceEvents"]:
            if event["name"] == "process_name":
                event["args"]["name"] = f"Rank {number} python"
    return ranks


def windows_of(numbers: Sequence[int], of: int = 3) -> list[tuple[int, ...]]:
    """The kernels of each rank: from 1010 to 1230 us, with 2 x 50 us and the all-reduce."""
    return [(n, of, n, 3, 220_000, 120_000 - 5_000 * n) for n in numbers]


@BOTH
@pytest.mark.parametrize("kind", LABELS)
def test_every_kind_of_label(kind: str, reader: str, tmp_path: Path) -> None:
    ranks = {n: rank(n) for n in range(3)}
    run = opened(write(tmp_path / "m.json", merged(ranks, LABELS[kind])), reader)
    assert rows(run, WINDOWS) == windows_of(range(3))
    # The last rank begins 10 us after the first, and all-reduces end together.
    assert rows(run, WAITS) == [(0, 1, 10_000), (1, 1, 5_000), (2, 1, 0)]
    assert rows(run, "SELECT check_name FROM ledger WHERE NOT ok") == []
    assert rows(run, "SELECT rank, COUNT(*) FROM launch GROUP BY 1 ORDER BY 1") == [
        (0, 3), (1, 3), (2, 3)
    ]  # fmt: skip
    flows = "SELECT o.rank, i.rank, COUNT(*) FROM flow JOIN slice o ON o.id = slice_out "
    flows += "JOIN slice i ON i.id = slice_in GROUP BY ALL ORDER BY ALL"
    assert rows(run, flows) == [(n, n, 3) for n in range(3)]
    assert rows(run, "SELECT COUNT(*) FROM instant") == [(3,)]


@BOTH
def test_processes_named_after_their_rank(reader: str, tmp_path: Path) -> None:
    ranks = named({n: rank(n, of=4) for n in (3, 1)})
    run = opened(write(tmp_path / "m.json", merged(ranks, offset(0))), reader)
    assert rows(run, WINDOWS) == windows_of((1, 3), of=4)


def test_ten_ranks_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    ranks = {n: rank(n, of=12) for n in (10, 2, 11, 0)}
    for one in ranks.values():
        one["distributedInfo"] = {}
    run = opened(write(tmp_path / "m.json", merged(ranks, labelled("[TP{rank}] {pid}"))))
    assert rows(run, "SELECT rank, world_size FROM trace ORDER BY 1") == [
        (n, 12) for n in (0, 2, 10, 11)
    ]


@BOTH
def test_the_order_in_a_file_separates_ranks_without_labels(reader: str, tmp_path: Path) -> None:
    """Files are one after the other; all ranks have the same correlations."""
    ranks = {n: rank(n) for n in range(3)}
    run = opened(write(tmp_path / "m.json", merged(ranks, offset(0))), reader)
    assert rows(run, WINDOWS) == windows_of(range(3))


@BOTH
@pytest.mark.parametrize("late", [0, 500])
def test_correlation_separates_ranks_without_labels(late: int, reader: str, tmp_path: Path) -> None:
    """Correlations of another range, or half of them."""
    trace = merged({n: rank(n, first=1 + 2 * n, late=late * n) for n in range(2)}, offset(0))
    trace["traceEvents"].sort(key=lambda event: event["ts"])
    run = opened(write(tmp_path / "m.json", trace), reader)
    assert rows(run, WINDOWS) == windows_of(range(2))


def on_one_gpu(number: int) -> Trace:
    trace = rank(number)
    for event in trace["traceEvents"]:
        event["pid"] = 0 if event["pid"] == number else event["pid"]
    return trace


def of_one_pid(number: int) -> Trace:
    trace = rank(number)
    for event in trace["traceEvents"]:
        event["pid"] = 77 if event["pid"] == 4000 + number else event["pid"]
    return trace


@BOTH
@pytest.mark.parametrize(
    ("of_rank", "reason"),
    [
        (rank, "their correlations do not show"),  # and neither does the order in the file
        (on_one_gpu, "on one track of GPU 0"),
        (lambda n: on_one_gpu(n) if n else rank(0, first=50), "on one track of GPU 0"),
        (of_one_pid, "several processes have the id 77"),
    ],
)
def test_ranks_that_cannot_be_separated_are_refused(
    of_rank: Callable[[int], Trace], reason: str, reader: str, tmp_path: Path
) -> None:
    trace = merged({n: of_rank(n) for n in range(2)}, offset(0))
    trace["traceEvents"].sort(key=lambda event: event["ts"])
    file = write(tmp_path / "m.json", trace)
    with pytest.raises(
        TraceCorrupt, match=f"{file}.*{reason}.*load the files of the ranks"
    ) as found:
        traceql.load(file, tmp_path / "run.duckdb", reader=reader)
    assert "\n" not in str(found.value)
    assert not (tmp_path / "run.duckdb").exists()


def test_a_process_with_two_gpus_is_one_rank(tmp_path: Path) -> None:
    events = [
        event
        for n, device in enumerate((0, 1, 0, 1))
        for event in (
            traces.launch(ts=100 * n, correlation=n),
            traces.kernel(ts=100 * n + 10, dur=50, correlation=n, device=device),
        )
    ]
    run = opened(traces.write(tmp_path / "two.json", *events))
    assert rows(run, WINDOWS) == [(0, 1, n, 2, 250_000, 100_000) for n in range(2)]


@BOTH
def test_a_second_process_without_kernels_is_no_rank(reader: str, tmp_path: Path) -> None:
    """A child whose kernels were not recorded; its correlations are also those of the parent."""
    child = [traces.launch(ts=5 + n, correlation=n) | {"pid": 555} for n in range(2)]
    trace = rank(0, first=0)
    trace["traceEvents"] += child
    run = opened(write(tmp_path / "m.json", trace), reader)
    assert rows(run, WINDOWS) == windows_of([0])


def beside(folder: Path) -> Path:
    """The folder of an engine, with the files of two ranks and the merged one."""
    ranks = {n: rank(n, of=2) for n in range(2)}
    for n, trace in ranks.items():
        write(folder / f"1795-TP-{n}.trace.json", trace)
    write(folder / "merged-1795.trace.json", merged(ranks, LABELS["sglang"]))
    return folder


def test_a_merged_file_beside_those_of_its_ranks_is_left_out(tmp_path: Path) -> None:
    folder = beside(tmp_path / "run")
    for _ in range(2):  # the second time, the files of the ranks are in the database
        found = traceql.load(folder, tmp_path / "run.duckdb")
        (sentence,) = found.others
        assert sentence.endswith(
            "merged-1795.trace.json is merged from 1795-TP-0.trace.json, 1795-TP-1.trace.json, "
            "which are loaded; it is left out"
        )
        assert folder / "merged-1795.trace.json" not in {*found.added, *found.skipped}
    assert rows(traceql.open(found.database), WINDOWS) == windows_of(range(2), of=2)


def test_a_merged_file_of_another_run_beside_ranks_is_an_error(tmp_path: Path) -> None:
    folder = beside(tmp_path / "run")
    other = {n: rank(n, of=2, late=7) for n in range(2)}
    write(folder / "merged-1795.trace.json", merged(other, LABELS["sglang"]))
    with pytest.raises(RankConflict, match=r"rank [01] is claimed by"):
        traceql.load(folder, tmp_path / "run.duckdb")


def test_ranks_whose_files_are_missing_come_from_the_merged_one(tmp_path: Path) -> None:
    folder = beside(tmp_path / "run")
    (folder / "1795-TP-1.trace.json").unlink()
    run = traceql.open(traceql.load(folder, tmp_path / "run.duckdb").database)
    assert rows(run, WINDOWS) == windows_of(range(2), of=2)


def test_perfetto_gets_the_events_of_a_rank(tmp_path: Path) -> None:
    ranks = {n: rank(n) for n in range(2)}
    run = opened(write(tmp_path / "m.json", merged(ranks, LABELS["sglang"])))
    for path, metadata, dur in rows(run, "SELECT path, metadata, 20 - 5 * rank FROM trace"):
        feed = reader_of(Path(path)).feed
        assert feed
        fed = json.loads(b"".join(feed(Path(path), 0, json.loads(metadata))))["traceEvents"]
        kernels = [event for event in fed if event.get("cat") == "kernel"]
        assert sorted(event["dur"] for event in kernels) == [dur, 50, 50]
