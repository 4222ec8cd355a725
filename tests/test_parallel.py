"""How ranks share the work: the queries against unions of the files, and small runs in tables."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import databases
import pytest
import traces
from databases import SERVING, answers, cases, gpu_events, rank_files, sql
from derived import Tables, answer, insert
from unions import Interval, clipped, gpu_activity, length, union

import traceql

Row = dict[str, Any]

BALANCED = "qwen3-32b-tp4-graph-nccl"
LATE_RANK = "qwen3-30b-a3b-tp4-ep-graph"
STAGES = "qwen3-8b-pp2-graph"
ALONE = "qwen3-8b-tp1-graph"
TWO_RANKS = "qwen3-8b-tp2-eager-stack-4layers"
TENSOR = [BALANCED, LATE_RANK, TWO_RANKS]
_COMMUNICATION = ("nccl", "cross_device_reduce")


class Operation(NamedTuple):
    """A collective on one rank, on the time base of the run."""

    ts: int
    end_ts: int
    arrival_ts: int  # of the last rank
    late_rank: int
    since: int  # the end of the operation before on the late rank; its first kernel's start

    @property
    def wait(self) -> int:
        return min(self.end_ts - self.ts, self.arrival_ts - self.ts)


@cache
def operations(run: str) -> dict[int, list[Operation]]:
    """Where all ranks do all operations: the n-th of each rank is the same one."""
    first, times = {}, {}
    for file in rank_files(run):
        events = gpu_events(file.path)
        first[file.rank] = min(event.ts for event in events) + file.offset_ns
        times[file.rank] = sorted(
            (event.ts + file.offset_ns, event.ts + event.dur + file.offset_ns)
            for event in events
            if any(part in event.name for part in _COMMUNICATION)
        )
    assert len({len(of_rank) for of_rank in times.values()}) == 1
    found: dict[int, list[Operation]] = {rank: [] for rank in times}
    before = first
    for one in zip(*times.values(), strict=True):
        on_rank = dict(zip(times, one, strict=True))
        # The first of those that begin at once: as the query for rank 0 chooses.
        late = max(on_rank, key=lambda rank: (on_rank[rank][0], -rank))
        for rank, (ts, end_ts) in on_rank.items():
            found[rank].append(Operation(ts, end_ts, on_rank[late][0], late, before[late]))
        before = {rank: end_ts for rank, (_, end_ts) in on_rank.items()}
    return found


@cache
def steps(run: str, rank: int) -> list[Row]:
    """Steps that have kernels, in order; `end` is where the next one begins, or it ends itself."""
    found = sql(
        run,
        """
        SELECT step_id, number, phase, gpu_ts AS ts, gpu_ts + gpu_dur AS gpu_end FROM step
        WHERE rank = $rank AND gpu_ts IS NOT NULL ORDER BY gpu_ts
        """,
        rank=rank,
    )
    for row, following in zip(found, [*found[1:], None], strict=True):
        row["end"] = min(row["gpu_end"], following["ts"]) if following else row["gpu_end"]
    return found


def by_step(run: str, rank: int) -> dict[int, list[Operation]]:
    """Positions of steps, and the operations that began in them; those before all are left out."""
    starts = [row["ts"] for row in steps(run, rank)]
    found = defaultdict(list)
    for operation in operations(run)[rank]:
        position = bisect_right(starts, operation.ts) - 1
        if position >= 0:
            found[position].append(operation)
    return found


# --- tp.overhead -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("run", cases(TENSOR))
def test_overhead_of_tensor_parallelism_equals_sums_over_the_files(run: str) -> None:
    sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for rank in operations(run):
        for position, own in by_step(run, rank).items():
            step = steps(run, rank)[position]
            window = (step["ts"], step["end"])
            busy = union(clipped([(o.ts, o.end_ts) for o in operations(run)[rank]], window))
            sums[step["phase"]] += Counter(
                steps=1,
                step_ns=window[1] - window[0],
                comm_ns=length(busy),
                wait_ns=sum(o.wait for o in own),
                transfer_ns=sum(o.end_ts - o.ts - o.wait for o in own),
            )
    found = answers(run, "tp.overhead")
    assert found
    assert {row["phase"]: row["steps"] for row in found} == {
        phase: summed["steps"] for phase, summed in sums.items()
    }
    for row in found:
        summed = sums[row["phase"]]
        means = {name: summed[name] / summed["steps"] for name in summed}
        rest_ns = means["step_ns"] - means["comm_ns"]
        assert row["pp_rank"] == 0
        assert row["tp_size"] == len(operations(run))
        assert row["matched_pct"] == 100
        for name in ("step_ns", "comm_ns", "wait_ns", "transfer_ns"):
            assert row[name] == pytest.approx(means[name], rel=1e-9)
        assert row["other_comm_ns"] == 0
        assert row["rest_ns"] == pytest.approx(rest_ns, rel=1e-9)
        assert row["efficiency_pct"] == pytest.approx(100 * rest_ns / means["step_ns"], rel=1e-9)


# --- step.critical ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("run", cases(TENSOR))
def test_chain_lies_on_the_rank_that_came_last(run: str) -> None:
    found = chains(run)
    assert found
    assert found.keys() == {steps(run, 0)[position]["number"] for position in by_step(run, 0)}
    for position, own in by_step(run, 0).items():
        expected: Counter[int | None] = Counter()
        for operation in own:
            expected[operation.late_rank] += operation.arrival_ts - operation.since
            expected[None] += operation.end_ts - operation.ts - operation.wait
        segments = found[steps(run, 0)[position]["number"]]
        on_rank: Counter[int | None] = Counter()
        for row in segments:
            if row["segment"] != "skew":
                on_rank[row["rank"]] += row["ns"]
        assert {rank: ns for rank, ns in on_rank.items() if ns} == {
            rank: ns for rank, ns in expected.items() if ns
        }


@pytest.mark.parametrize("run", cases([STAGES]))
def test_chain_goes_on_on_the_stage_that_is_waited_for(run: str) -> None:
    """The second stage computes nothing while it waits for what the first one computes."""
    computing, received = {}, []
    for file in rank_files(run):
        own = gpu_activity(run, file.path).compute
        computing[file.rank] = [(a + file.offset_ns, b + file.offset_ns) for a, b in own]
        if file.rank == 1:
            received = [
                (event.ts + file.offset_ns, event.ts + event.dur + file.offset_ns)
                for event in gpu_events(file.path)
                if "SendRecv" in event.name
            ]
    waiting = [
        (max([begin, *(b for a, b in computing[1] if a < end)]), end) for begin, end in received
    ]
    expected = sum(length(clipped(computing[0], window)) for window in waiting)
    rows = answers(run, "step.critical", by="step", rank=1, limit=1_000_000)
    found = sum(row["ns"] for row in rows if (row["segment"], row["rank"]) == ("kernel", 0))
    assert expected > 10_000_000
    assert found == pytest.approx(expected, rel=0.01)
    for step_id in {row["step_id"] for row in rows}:
        segments = [row for row in rows if row["step_id"] == step_id]
        assert sum(row["ns"] for row in segments) == segments[0]["length_ns"]


@pytest.mark.parametrize("run", cases([ALONE, "qwen3-0.6b-tp1-eager"]))
def test_chain_of_a_rank_alone_is_its_own_time(run: str) -> None:
    (file,) = rank_files(run)
    activity = gpu_activity(run, file.path)
    found = chains(run)
    assert found
    end = activity.window[0]
    for step in steps(run, 0):
        window = (end, step["gpu_end"] - file.offset_ns)
        if window[1] <= end:
            assert step["number"] not in found
            continue
        end = window[1]
        computing = length(clipped(activity.compute, window))
        busy = length(clipped(union([*activity.compute, *activity.copy]), window))
        ns = {row["segment"]: row["ns"] for row in found[step["number"]]}
        assert {row["length_ns"] for row in found[step["number"]]} == {window[1] - window[0]}
        assert ns.get("kernel", 0) == computing
        assert ns.get("copy", 0) == busy - computing
        assert ns.get("host", 0) + ns.get("launch", 0) == window[1] - window[0] - busy
        assert "communication" not in ns


def chains(run: str) -> dict[int, list[Row]]:
    found = defaultdict(list)
    for row in answers(run, "step.critical", by="step", limit=1_000_000):
        found[row["number"]].append(row)
    return dict(found)


# --- parallel.timeline -----------------------------------------------------------------------


@pytest.mark.parametrize("run", cases([BALANCED, LATE_RANK, STAGES, SERVING]))
def test_ranks_do_the_same_in_one_iteration(run: str) -> None:
    names = {row["step_id"]: row["name"] for row in sql(run, "SELECT step_id, name FROM step")}
    iterations: defaultdict[int, dict[int, Row]] = defaultdict(dict)
    for row in answers(run, "parallel.timeline", limit=1_000_000):
        iterations[row["iteration"]][row["rank"]] = row
        assert row["source"] == "operations"
    assert list(iterations) == list(range(len(iterations)))
    for ranks in iterations.values():
        assert len({names[row["step_id"]] for row in ranks.values()}) == 1
        begun = [row["ts"] for row in ranks.values() if row["ts"] is not None]
        for row in ranks.values():
            assert row["skew_ns"] == (row["ts"] and row["ts"] - min(begun))


# --- pp.bubble -------------------------------------------------------------------------------


@pytest.mark.parametrize("run", cases([STAGES]))
def test_bubble_is_where_only_the_other_stage_computes(run: str) -> None:
    found = {row["rank"]: row for row in answers(run, "pp.bubble")}
    files = list(rank_files(run))
    assert len({file.offset_ns for file in files}) == 1  # so that their own times compare
    of_rank = {file.rank: gpu_activity(run, file.path) for file in files}
    begins, ends = zip(*(activity.window for activity in of_rank.values()), strict=True)
    window = (min(begins), max(ends))  # both were recorded before and after it
    for rank, other in ((0, 1), (1, 0)):
        row, activity = found[rank], of_rank[rank]
        own = list(clipped(activity.compute, window))
        elsewhere = without(of_rank[other].compute, own)
        waiting = without(activity.comm, own)
        copies = without(activity.copy, union([*own, *activity.comm]))
        assert row["window_ns"] == window[1] - window[0]
        assert row["computing_ns"] == length(own)
        assert row["bubble_ns"] == length(elsewhere)
        assert row["neither_ns"] == window[1] - window[0] - length(union([*own, *elsewhere]))
        assert row["comm_ns"] == common(elsewhere, waiting)
        assert row["copy_ns"] == common(elsewhere, copies)
        assert row["edge_ns"] == length(elsewhere) - common(elsewhere, [activity.window])
        parts_ns = (row[f"{part}_ns"] for part in ("comm", "copy", "host", "launch", "edge"))
        assert sum(parts_ns) == row["bubble_ns"]
        assert row["microbatches"] == 7
        assert row["ideal_pct"] == 12.5


def without(intervals: Iterable[Interval], others: list[Interval]) -> list[Interval]:
    """What the others, which do not overlap each other, leave of the intervals."""
    left = []
    for start, end in intervals:
        for other_start, other_end in clipped(others, (start, end)):
            left.append((start, other_start))
            start = other_end
        left.append((start, end))
    return [(start, end) for start, end in left if end > start]


def common(intervals: list[Interval], others: list[Interval]) -> int:
    return sum(length(clipped(others, interval)) for interval in intervals)


@pytest.mark.parametrize("ahead_ns", [0, 1_000_000])
def test_bubble_is_the_same_if_the_clock_of_a_stage_is_ahead(ahead_ns: int) -> None:
    """Stage 0 computes 0 to 40 and 60 to 75, stage 1 30 to 70; both have work up to 80."""
    tables = Tables()
    ranks = [{"rank": 0}, {"rank": 1}]
    of_stage = [one | {"pp_rank": one["rank"], "dp_rank": 0, "pp_size": 2} for one in ranks]
    insert(tables, "layout", *of_stage)
    ahead = [{"offset_ns": 0}, {"offset_ns": ahead_ns}]
    for one, clock in zip(ranks, ahead, strict=True):
        insert(tables, "clock", one | clock | {"drift": 0, "at_ns": 0})
        insert(tables, "slice", one | {"ts": clock["offset_ns"], "dur": 90})
    insert(tables, "step")
    insert(tables, "aligned_step")
    for rank, ts, dur, part, cause in (
        (0, 0, 40, "computing", None), (0, 40, 20, "exposed_transfer", None),
        (0, 60, 15, "computing", None), (0, 75, 5, "idle", "launch"),
        (1, 30, 40, "computing", None), (1, 70, 10, "idle", "host"),
    ):  # fmt: skip
        what = {"device": 0, "dur": dur, "part": part, "cause": cause}
        insert(tables, "device_timeline", {"rank": rank, "ts": ts + rank * ahead_ns} | what)
    assert [(*row[3:7], *row[8:13]) for row in answer(tables, "pp.bubble")] == [
        # window, computing, bubble, neither, comm, copy, host, launch, edge
        (80, 55, 20, 5, 20, 0, 0, 0, 0),
        (80, 40, 35, 5, 0, 0, 5, 0, 30),
    ]


# --- ep.balance and dp.sync ------------------------------------------------------------------


@pytest.mark.slow
def test_work_of_experts_equals_sums_over_the_files() -> None:
    found = {row["rank"]: row for row in answers(LATE_RANK, "ep.balance")}
    experts = {}
    for file in rank_files(LATE_RANK):
        own = [event.dur for event in gpu_events(file.path) if event.name == "fused_moe_kernel"]
        experts[file.rank] = sum(own)
        row = found[file.rank]
        assert row["calls"] == len(own) / 2 == 48 * 6
        assert row["experts_ns"] == sum(own)
        # In a step: one after the embedding, then by turns after attention and after the experts.
        after = [
            operation
            for of_step in by_step(LATE_RANK, file.rank).values()
            for operation in of_step[2:97:2]
        ]
        assert row["comm_ns"] == sum(o.end_ts - o.ts for o in after)
        assert row["wait_ns"] == sum(o.wait for o in after)
        assert row["transfer_ns"] == row["comm_ns"] - row["wait_ns"]
        assert (row["form"], row["group_ranks"], row["layer"]) == ("all-reduce", "0 1 2 3", None)
        assert row["tokens"] == 4 * 512 + 4 * 5
    mean = sum(experts.values()) / 4
    assert [row["ratio"] for row in found.values()] == [
        pytest.approx(experts[rank] / mean) for rank in found
    ]


@pytest.mark.parametrize("run", cases([ALONE, BALANCED, STAGES]))
def test_what_a_run_does_not_share_has_no_rows(run: str) -> None:
    """By run: no experts and replicas, one stage or no tensor-parallel peers."""
    without = {ALONE: ["tp.overhead", "pp.bubble"], BALANCED: ["pp.bubble"]}
    for query in without.get(run, ["tp.overhead"]):
        assert answers(run, query) == []
    assert answers(run, "ep.balance") == answers(run, "dp.sync") == []


# --- what a group of ranks is for ----------------------------------------------------------------

_DDP = [traces.host("DistributedDataParallel.forward", ts=0, dur=2, cat="user_annotation")]
_EVERYBODY = {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}


_OTHER = {"pg_name": "1", "pg_desc": "undefined", "ranks": [1, 2]}
_UNKNOWN = [(None,) * 6] * 2
_TENSOR_PARALLEL = [(0, 2, 0, 1, 0, 1), (1, 2, 0, 1, 0, 1)]
_REPLICATED = [(0, 1, 0, 1, 0, 2), (0, 1, 0, 1, 1, 2)]


def described(purpose: str) -> list[Row]:
    return [_EVERYBODY, _EVERYBODY | {"pg_name": "1", "pg_desc": purpose}]


def places(trace: traceql.Trace) -> list[tuple[Any, ...]]:
    rows = trace.select("FROM layout ORDER BY rank").rows()
    return [
        tuple(row[f"{k}_{n}"] for k in ("tp", "pp", "dp") for n in ("rank", "size")) for row in rows
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "groups", "expected"),
    [
        ([], [_EVERYBODY], _UNKNOWN),
        (_DDP, [_EVERYBODY], _REPLICATED),
        # Of two groups of different ranks only one can be that of the gradients.
        (_DDP, [_EVERYBODY, _OTHER], _UNKNOWN),
        ([], described("mesh_tp"), _TENSOR_PARALLEL),
        ([], described("TENSOR_MODEL_PARALLEL_GROUP"), _TENSOR_PARALLEL),
        (
            [],
            described("PIPELINE_MODEL_PARALLEL_GROUP"),
            [(0, 1, 0, 2, 0, 1), (0, 1, 1, 2, 0, 1)],
        ),
        ([], described("mesh_dp"), _REPLICATED),
    ],
)
def test_purpose_of_a_group_follows_from_its_name_or_from_gradients(
    more: list[traces.Event], groups: list[Row], expected: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    for rank in range(2):
        events = [
            traces.launch(ts=1, correlation=1),
            traces.launch(ts=3, correlation=2),
            traces.kernel(ts=5, dur=10, correlation=1),
            traces.kernel(traces.ALL_REDUCE, ts=15, dur=5, correlation=2),
        ]
        info = {"rank": rank, "world_size": 2, "pg_config": groups}
        traces.write(tmp_path / f"rank{rank}.json", *events, *more, distributedInfo=info)
    with traceql.open(tmp_path) as trace:
        assert places(trace) == expected
        assert bool(trace.run("tp.overhead").rows()) == (expected == _TENSOR_PARALLEL)
        assert bool(trace.run("dp.sync").rows()) == (expected == _REPLICATED)
        # What operations cost does not depend on what they are for.
        assert sum(row["calls"] for row in trace.run("comm.summary")) == 2


@pytest.mark.parametrize("run", cases(["mi300x-resnet-training", "a100-nccl-metadata"]))
def test_training_with_ddp_is_data_parallel(run: str) -> None:
    """By hand: both files have DistributedDataParallel.forward, and one group, of all ranks."""
    world = {"mi300x-resnet-training": 8, "a100-nccl-metadata": 2}[run]
    assert places(databases.trace(run)) == [(0, 1, 0, 1, 0, world)]
    assert answers(run, "tp.overhead") == []


@pytest.mark.slow
def test_training_without_listed_groups_stays_unknown() -> None:
    for run in ("a100-graph-launches", "two-of-128-ranks"):
        assert set(places(databases.trace(run))) == {(None,) * 6}
        assert answers(run, "tp.overhead") == []


@pytest.mark.parametrize("run", cases([*TENSOR, "b200-vllm-moe-eager"]))
def test_sums_inside_layers_are_tensor_parallel(run: str) -> None:
    size = {TWO_RANKS: 2, "b200-vllm-moe-eager": 8}.get(run, 4)
    assert {place[1] for place in places(databases.trace(run))} == {size}
    assert answers(run, "tp.overhead")
