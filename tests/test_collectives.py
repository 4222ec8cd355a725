"""Operations matched across ranks: wait and transfer, against the files."""

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import databases
import pytest
import traces
from databases import EXAMPLES, SHARED
from needed_tables import only_tables
from unions import IN_ORDER, waits

import traceql

pytestmark = pytest.mark.slow

Event = dict[str, Any]

BUNDLED = "qwen3-32b-tp4-graph-nccl"
LATE_RANK = "qwen3-30b-a3b-tp4-ep-graph"
DATA = Path(__file__).parent / "data"

_NAMED = ("nccl", "cross_device_reduce")
_KEPT = {
    "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "user_annotation", "Trace"
}  # fmt: skip


# --- files, and the same calculation without traceql -------------------------------------------


def files(run: str) -> dict[int, dict[str, Any]]:
    """The JSON of each rank."""
    folder = EXAMPLES / run if (EXAMPLES / run).is_dir() else SHARED / run
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    found = {}
    for path in folder.glob("*.json.gz"):
        document = json.loads(gzip.decompress(path.read_bytes()))
        found[document["distributedInfo"]["rank"]] = document
    return found


def is_operation(event: Event) -> bool:
    return event.get("cat") == "kernel" and any(part in event["name"] for part in _NAMED)


def written(folder: Path, documents: dict[int, dict[str, Any]]) -> Path:
    """The ranks as files of their own, with the events that matter here."""
    for rank, document in documents.items():
        events = [e for e in document["traceEvents"] if e.get("cat") in _KEPT or e["ph"] == "M"]
        metadata = {name: value for name, value in document.items() if name != "traceEvents"}
        traces.write(folder / f"rank{rank}.json", *events, **metadata)
    return folder


def moved(document: dict[str, Any], clock: Callable[[float], float]) -> dict[str, Any]:
    """The same events by another clock."""
    events = []
    for event in document["traceEvents"]:
        if "ts" in event:
            begin, end = event["ts"], event["ts"] + event.get("dur", 0)
            event = event | {"ts": clock(begin)}
            if "dur" in event:
                event["dur"] = clock(end) - event["ts"]
        events.append(event)
    return document | {"traceEvents": events}


def matched(folder: Path, *more: str) -> traceql.Trace:
    """A database of the traces in a folder, with the tables that tell of operations, and more."""
    with only_tables("collective", "clock", "communicator_link", *more):
        return traceql.open(traceql.load(folder, folder / "run.duckdb").database)


def in_order(trace: traceql.Trace) -> dict[int, list[dict[str, Any]]]:
    """The operations of each rank; the n-th of every rank must have one number."""
    of_rank = defaultdict(list)
    for row in trace.sql("""
        SELECT collective.rank, match_id, wait_ns, transfer_ns
        FROM collective
        JOIN kernel ON collective.kernel_id = kernel.id
        ORDER BY collective.rank, kernel.ts
    """):
        of_rank[row["rank"]].append(row)
    sequences = [[row["match_id"] for row in rows] for rows in of_rank.values()]
    assert None not in sequences[0]
    assert all(sequence == sequences[0] for sequence in sequences)
    return of_rank


def waits_of_files(run: str) -> dict[int, list[tuple[int, int]]]:
    """(wait, dur) of each rank's operations, in order, calculated from the files."""
    return {
        file.rank: [(wait or 0, end - ts) for (ts, end), wait in waits(run, file.path).items()]
        for file in databases.rank_files(run)
    }


# --- real traces -------------------------------------------------------------------------------


@pytest.mark.parametrize("run", IN_ORDER)
def test_waiting_and_transfer_equal_those_of_the_files(run: str) -> None:
    found = in_order(databases.trace(run))
    assert waits_of_files(run) == {
        rank: [(row["wait_ns"], row["wait_ns"] + row["transfer_ns"]) for row in rows]
        for rank, rows in found.items()
    }


def test_waiting_for_one_late_host_is_apart_from_transfers() -> None:
    trace = databases.trace(LATE_RANK)
    skew = trace.run("comm.skew").rows()
    assert [round(row["wait_ns"] / 1e6) for row in skew] == [62, 64, 63, 2]
    assert all(6.5 < row["transfer_ns"] / 1e6 < 8.5 for row in skew)
    costliest = max(skew, key=lambda row: row["cost_ns"])
    assert (costliest["rank"], costliest["cause"]) == (3, "host")


def test_sends_match_receives() -> None:
    trace = databases.trace("qwen3-8b-pp2-graph")
    rows = trace.sql("""
        SELECT collective.*, kernel.ts, kernel.ts + kernel.dur AS end_ts
        FROM collective
        JOIN kernel ON collective.kernel_id = kernel.id
        WHERE op IN ('send', 'recv')
        ORDER BY kernel.ts
    """).rows()
    sends = [row for row in rows if row["rank"] == 0]
    receives = [row for row in rows if row["rank"] == 1]
    assert {row["op"] for row in sends} == {"send"}
    assert {row["op"] for row in receives} == {"recv"}
    assert len(sends) == len(receives) == 14
    assert {row["group_ranks"] for row in rows} == {"0 to 1"}
    for send, receive in zip(sends, receives, strict=True):
        assert send["match_id"] == receive["match_id"] is not None
        assert send["bytes"] == receive["bytes"]
        assert receive["end_ts"] > send["ts"]  # nothing is received before it is sent


def test_a_missing_rank_leaves_what_is_not_known_empty(tmp_path: Path) -> None:
    documents = files(BUNDLED)
    del documents[2]
    with traceql.open(written(tmp_path, documents)) as trace:
        (row,) = trace.sql("""
            SELECT
                COUNT(*) AS operations,
                COUNT(match_id) AS matched,
                COUNT(wait_ns) + COUNT(transfer_ns) + COUNT(busbw_gbps) AS timed,
                MIN(group_size) AS least,
                MAX(group_size) AS most,
                MAX(ranks_found) AS found
            FROM collective
        """).rows()
        assert row["matched"] == row["operations"] == 3 * 780
        assert (row["timed"], row["least"], row["most"], row["found"]) == (0, 4, 4, 3)
        found = {finding["cause"] for finding in trace.run("overview.findings")}
        assert "missing_ranks" in found
        assert not found & {"late_peer", "slow_host_rank", "late_rank_gpu"}


# --- clocks ------------------------------------------------------------------------------------


def clock_of(ts: float, *, at: float, shift_us: float, drift: float) -> float:
    return ts + shift_us + drift * (ts - at)


def test_shifted_and_stretched_clocks_are_recovered(tmp_path: Path) -> None:
    """They are known within 2 us, every rank waits as long as it did, and less is not reliable."""
    shifts = {1: (-6_400.5, 0.0), 3: (2_500_000.0, 40e-6)}  # us, and us per us
    documents = files(BUNDLED)
    for rank, (shift_us, drift) in shifts.items():
        at = min(e["ts"] for e in documents[rank]["traceEvents"] if e.get("cat") == "kernel")
        by = partial(clock_of, at=at, shift_us=shift_us, drift=drift)
        documents[rank] = moved(documents[rank], by)
    with matched(written(tmp_path, documents), "straggler") as trace:
        for rank, (shift_us, drift) in shifts.items():
            (clock,) = trace.select(f"FROM clock WHERE rank = {rank}").rows()
            assert clock["source"] == "ends of operations"
            kernels = "SELECT MIN(ts) AS first, MAX(ts) AS last FROM kernel WHERE rank = $rank"
            (begin,) = trace.sql(kernels, {"rank": rank}).rows()
            for ts in begin.values():
                known = clock["offset_ns"] + clock["drift"] * (ts - clock["at_ns"])
                truth = 1000 * shift_us + drift * (ts - begin["first"])
                assert abs(known - truth) < 2_000
            assert abs(clock["drift"] - drift) < 1e-5
            assert clock["residual_ns"] < 10_000
        in_order(trace)
        found = {row["rank"]: row["wait_ns"] for row in trace.run("comm.skew")}
        for rank, operations in waits_of_files(BUNDLED).items():
            wait_ns, dur_ns = map(sum, zip(*operations, strict=True))
            assert abs(found[rank] - wait_ns) < 0.02 * dur_ns
        rows = trace.sql("SELECT * FROM collective WHERE wait_ns > 0").rows()
        assert {row["uncertainty_ns"] > 0 for row in rows} == {True}
        assert {row["reliable"] for row in rows} == {True, False}
        for row in rows:
            less = min(row["wait_ns"], row["transfer_ns"])
            assert row["reliable"] == (row["uncertainty_ns"] <= less)
        (link,) = trace.select("FROM communicator_link").rows()
        assert (link["link"], link["peak_gbps"]) == (None, None)
        assert "on several hosts" in link["source"]
    shared = databases.trace(BUNDLED).sql(
        "SELECT DISTINCT uncertainty_ns, reliable FROM collective"
    )
    assert shared.rows() == [{"uncertainty_ns": 0, "reliable": True}]


# --- damage ------------------------------------------------------------------------------------


def matches(trace: traceql.Trace) -> list[list[int]]:
    """The numbers in args of the operations of each match: the truth about matches."""
    rows = trace.sql("""
        SELECT list(CAST(args ->> '$.truth' AS BIGINT)) AS truth
        FROM collective
        JOIN slice ON collective.kernel_id = slice.id
        WHERE match_id IS NOT NULL
        GROUP BY match_id
    """).rows()
    return [row["truth"] for row in rows]


def test_lost_operations_are_lost_alone(tmp_path: Path) -> None:
    documents = files(BUNDLED)
    for document in documents.values():
        operations = sorted(filter(is_operation, document["traceEvents"]), key=lambda e: e["ts"])
        for number, event in enumerate(operations):
            event["args"]["truth"] = number
    lost = set(random.Random(7).sample(range(780), 25))
    documents[2]["traceEvents"] = [
        e for e in documents[2]["traceEvents"]
        if not is_operation(e) or e["args"]["truth"] not in lost
    ]  # fmt: skip
    with matched(written(tmp_path, documents)) as trace:
        found = matches(trace)
        assert all(len(set(numbers)) == 1 for numbers in found)
        whole = {numbers[0] for numbers in found if len(numbers) == 4}
        # A layer that lost its all-reduce is no layer; the rest of its step still matches.
        assert len(whole) >= 780 - 4 * len(lost)


# --- synthetic edge cases ----------------------------------------------------------------------


def nccl(op: str, *, ts: float, dur: float, ranks: Sequence[int], **args: Any) -> Event:
    given: dict[str, Any] = {
        "Collective name": op, "Process Group Ranks": str(list(ranks)), "Group size": len(ranks),
        "In msg nelems": 1_000_000, "Out msg nelems": 1_000_000, "dtype": "BFloat16",
    }  # fmt: skip
    name = {"allreduce": "AllReduce_Sum_bf16_RING_LL", "_allgather_base": "AllGather_RING_LL"}
    return traces.kernel(
        f"ncclDevKernel_{name.get(op, 'SendRecv')}", ts=ts, dur=dur, **(given | args)
    )


def files_of(folder: Path, *ranks: list[Event]) -> Path:
    for rank, events in enumerate(ranks):
        info = {"rank": rank, "world_size": len(ranks)}
        traces.write(folder / f"rank{rank}.json", *events, distributedInfo=info)
    return folder


def test_groups_at_once_do_not_mix(tmp_path: Path) -> None:
    """Two pairs of tensor-parallel ranks, and pairs across them: each finds its own."""
    groups = [(([0, 1], [2, 3])[n // 2], ([0, 2], [1, 3])[n % 2]) for n in range(4)]
    events = [
        [
            nccl("allreduce", ts=100 + 10 * n + rank, dur=6 - rank, ranks=ranks)
            for n, ranks in enumerate(groups[rank] * 6)
        ]
        for rank in range(4)
    ]
    with matched(files_of(tmp_path, *events)) as trace:
        rows = trace.sql("""
            SELECT match_id, list(rank ORDER BY rank) AS ranks, ANY_VALUE(group_ranks) AS label
            FROM collective GROUP BY match_id
        """).rows()
        assert all(row["match_id"] is not None for row in rows)
        assert len(rows) == 24
        for row in rows:
            assert " ".join(map(str, row["ranks"])) == row["label"]


def test_sequence_numbers_decide_where_the_profiler_has_them(tmp_path: Path) -> None:
    """Rank 1 has no fifth operation."""
    first, second = (
        [
            nccl("allreduce", ts=100 * n, dur=50, ranks=[0, 1], Seq=n, truth=n)
            for n in range(8)
            if (rank, n) != (1, 4)
        ]
        for rank in (0, 1)
    )
    with matched(files_of(tmp_path, first, second)) as trace:
        assert sorted(matches(trace)) == [[n, n] for n in range(8) if n != 4]


def test_what_cannot_be_one_operation_is_not_matched(tmp_path: Path) -> None:
    """No all-reduce ends on one rank before it begins on another."""
    first, second = (
        [nccl("allreduce", ts=1000 * n, dur=10, ranks=[0, 1]) for n in range(6)] for _ in range(2)
    )
    second[3]["ts"] += 400
    with matched(files_of(tmp_path, first, second)) as trace:
        rows = trace.sql("""
            SELECT ts, match_id FROM collective JOIN kernel ON kernel_id = kernel.id ORDER BY ts
        """).rows()
        assert [r["ts"] for r in rows if r["match_id"] is None] == [3_000_000, 3_400_000]


def test_bandwidth_is_that_of_nccl_tests(tmp_path: Path) -> None:
    """4 ranks, 2 MB; three wait 10 us for the last, all end 40 us after it has come."""
    factors = {"allreduce": 1.5, "_allgather_base": 0.75, "reduce_scatter": 0.75, "broadcast": 1.0}
    early = [nccl(op, ts=100 * n, dur=50, ranks=range(4)) for n, op in enumerate(factors)]
    late = [nccl(op, ts=100 * n + 10, dur=40, ranks=range(4)) for n, op in enumerate(factors)]
    with matched(files_of(tmp_path, early, early, early, late)) as trace:
        for n, (op, factor) in enumerate(factors.items()):
            rows = trace.sql(
                """
                SELECT collective.* FROM collective JOIN kernel ON kernel_id = kernel.id
                WHERE kernel.ts BETWEEN $begin AND $begin + 10000
                ORDER BY collective.rank
                """,
                {"begin": 100_000 * n},
            ).rows()
            assert [row["wait_ns"] for row in rows] == [10_000, 10_000, 10_000, 0], op
            assert [row["transfer_ns"] for row in rows] == [40_000] * 4
            assert {row["bytes"] for row in rows} == {2_000_000}
            assert all(row["algbw_gbps"] == pytest.approx(50) for row in rows)
            assert all(row["busbw_gbps"] == pytest.approx(50 * factor) for row in rows)


# --- measured with CUDA events -----------------------------------------------------------------


@pytest.mark.parametrize("gpus", [2, 4])
def test_bandwidth_agrees_with_cuda_events(gpus: int) -> None:
    """benchmarks/collectives.py timed loops of calls by events while the profiler recorded.

    Events also count the pause of some us between two calls, so the smallest sizes differ more:
    there the whole loop is compared, from the trace's first start to its last end.
    """
    folder = DATA / f"nccl-{gpus}gpu"
    measured = json.loads((folder / "events.json").read_text())
    compared = 0
    with traceql.open(*sorted(folder.glob("rank*.gz"))) as trace:
        for row in measured["rows"]:
            factor = {"all_reduce": 2 * (gpus - 1) / gpus}.get(row["op"], (gpus - 1) / gpus)
            expected = factor * row["bytes"] / (sum(row["ns"]) / gpus)
            found = trace.sql(
                """
                SELECT
                    median(busbw_gbps) AS busbw_gbps,
                    (MAX(ts + dur) - MIN(ts)) AS loop_ns,
                    COUNT(*) AS calls
                FROM collective
                JOIN kernel ON collective.kernel_id = kernel.id
                WHERE op = $op AND collective.bytes = $bytes AND collective.rank = 0
                """,
                {"op": row["op"], "bytes": row["bytes"]},
            ).rows()[0]
            calls = found["calls"]
            assert calls == row["calls"] + 1  # one lines up the ranks
            # The line-up call waits; the loop after it is calls - 1 long.
            assert found["busbw_gbps"] > expected * 0.97
            if row["op"] == "all_reduce" and row["bytes"] >= 64 * 2**20:
                compared += 1
                assert found["busbw_gbps"] == pytest.approx(expected, rel=0.05)
    assert compared == 3


# --- clocks of small traces --------------------------------------------------------------------


def rhythm(rank: int, *, scatter_us: float, calls: int) -> list[Event]:
    """All-reduces of 5 ms every 10 ms; starts and ends scatter. Rank 1 is 900 us ahead."""
    chance = random.Random(rank)
    events = []
    for n in range(calls):
        begin, end = (
            10_000.0 * n + at + 900 * rank + chance.uniform(-scatter_us, scatter_us)
            for at in (100_000, 105_000)
        )
        events.append(nccl("allreduce", ts=begin, dur=end - begin, ranks=[0, 1], truth=n))
    return events


def test_a_steady_rhythm_fits_at_every_shift_and_the_nearest_is_taken(tmp_path: Path) -> None:
    ranks = [rhythm(rank, scatter_us=60, calls=40) for rank in range(2)]
    with matched(files_of(tmp_path, *ranks)) as trace:
        (clock,) = trace.select("FROM clock WHERE rank = 1").rows()
        assert abs(clock["offset_ns"] - 900_000) < 60_000
        assert all(numbers == [numbers[0]] * 2 for numbers in matches(trace))
        assert len(matches(trace)) == 40


def test_a_few_operations_that_end_together_by_chance_choose_no_shift(tmp_path: Path) -> None:
    ranks = [rhythm(rank, scatter_us=1500, calls=11) for rank in range(2)]
    with matched(files_of(tmp_path, *ranks)) as trace:
        (clock,) = trace.select("FROM clock WHERE rank = 1").rows()
        assert abs(clock["offset_ns"] - 900_000) < 1_500_000


def test_clocks_that_were_never_compared_make_nothing_reliable(tmp_path: Path) -> None:
    ranks = [rhythm(rank, scatter_us=0, calls=4) for rank in range(2)]
    with traceql.open(files_of(tmp_path, *ranks)) as trace:
        rows = trace.sql("FROM collective").rows()
        assert {(row["uncertainty_ns"], row["reliable"]) for row in rows} == {(None, None)}
        lost = trace.run("time.lost").rows()
        assert {row["cause"] for row in lost if row["wait_ns"]} == {"clock"}
        # Nobody is blamed for the waiting.
        found = {row["cause"] for row in trace.run("overview.findings")}
        assert not found & {"late_peer", "slow_host_rank", "late_rank_gpu", "uneven_waiting"}


def test_late_receives_are_no_difference_of_clocks(tmp_path: Path) -> None:
    """Receives posted 200 us after the send, steadily: late, and not another clock."""
    to: dict[str, Any] = {"Dst Rank": 1}
    source: dict[str, Any] = {"Src Rank": 0}
    sends = [nccl("send", ts=1000.0 * n, dur=5, ranks=[0, 1], **to) for n in range(30)]
    receives = [nccl("recv", ts=1000.0 * n + 200, dur=5, ranks=[0, 1], **source) for n in range(30)]
    with matched(files_of(tmp_path, sends, receives)) as trace:
        assert {row["offset_ns"] for row in trace.select("FROM clock")} == {0}
        late = trace.sql("SELECT DISTINCT late_ns FROM collective WHERE op = 'recv'").rows()
        assert late == [{"late_ns": 200_000}]
