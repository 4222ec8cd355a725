"""How ranks share the work: the queries against unions of the files, and small runs in tables."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import databases
import duckdb
import pytest
import traces
from databases import SERVING, cases, gpu_events, rank_files
from unions import Interval, clipped, gpu_activity, length, union

import traceql
from traceql.sql.definition import Kind
from traceql.sql.query import bound, catalog, query_named
from traceql.sql.registry import definitions

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


def answers(run: str, query: str, **parameters: Any) -> list[Row]:
    return databases.trace(run).run(query, **parameters).rows()


def sql(run: str, statement: str, **parameters: Any) -> list[Row]:
    return databases.trace(run).select(statement, parameters).rows()


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


def test_bubble_is_told_by_one_clock() -> None:
    assert bubbles(ahead_ns=0) == bubbles(ahead_ns=1_000_000)
    # Stage 0 computes 0 to 40 and 60 to 75, stage 1 30 to 70; both have work up to 80.
    assert bubbles(ahead_ns=0) == [
        # rank, window, computing, bubble, neither, comm, copy, host, launch, edge
        (0, 80, 55, 20, 5, 20, 0, 0, 0, 0),
        (1, 80, 40, 35, 5, 0, 0, 5, 0, 30),
    ]


def bubbles(*, ahead_ns: int) -> list[tuple[Any, ...]]:
    """Of two stages; the clock of the second is ahead."""
    con = duckdb.connect()
    con.execute("CREATE TABLE trace (dialect VARCHAR)")  # a macro asks it for its words
    macros = [one for one in definitions().values() if one.kind is Kind.MACRO]
    for macro in sorted(macros, key=lambda one: len(one.needs)):
        con.execute(macro.source)
    con.execute(
        """
        CREATE TABLE layout AS
        SELECT rank, 0 AS tp_rank, rank AS pp_rank, 0 AS dp_rank, 2 AS pp_size, 'words' AS source
        FROM range(2) AS ranks (rank);
        CREATE TABLE clock AS
        SELECT rank, rank * $ahead AS offset_ns, 0.0 AS drift, 0 AS at_ns
        FROM range(2) AS ranks (rank);
        CREATE TABLE slice AS
        SELECT rank, rank * $ahead AS ts, 90 AS dur FROM range(2) AS ranks (rank);
        CREATE TABLE device_timeline AS
        SELECT rank, 0 AS device, ts + rank * $ahead AS ts, dur, part, cause
        FROM (
            VALUES (0, 0, 40, 'computing', NULL), (0, 40, 20, 'exposed_transfer', NULL),
            (0, 60, 15, 'computing', NULL), (0, 75, 5, 'idle', 'launch'),
            (1, 30, 40, 'computing', NULL), (1, 70, 10, 'idle', 'host')
        ) AS parts (rank, ts, dur, part, cause);
        CREATE TABLE step (step_id BIGINT, phase VARCHAR);
        CREATE TABLE aligned_step (step_id BIGINT, rank BIGINT, ts BIGINT);
        """.replace("$ahead", str(ahead_ns))
    )
    query = query_named("pp.bubble", catalog())
    result = con.execute(query.sql, bound(query, {}))
    names = [column[0] for column in result.description]
    parts = ("window", "computing", "bubble", "neither", "comm", "copy", "host", "launch", "edge")
    kept = [names.index(name) for name in ("rank", *(f"{part}_ns" for part in parts))]
    return [tuple(row[place] for place in kept) for row in result.fetchall()]


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


# Two replicas that share experts: of one layer, tokens are gathered, worked on and scattered.
_REPLICAS = """
    CREATE TABLE layout AS
    SELECT rank, rank AS dp_rank, 2 AS dp_size, 'words' AS source FROM range(2) AS ranks (rank);
    CREATE TABLE kernel AS
    FROM (
        VALUES
        (0, 0, 0, 1, 'dispatch', 'collective', 10), (1, 0, 0, 1, 'experts_gate_up', 'moe', 50),
        (2, 0, 0, 1, 'experts_down', 'moe', 40), (3, 0, 0, 1, 'combine', 'collective', 10),
        (4, 0, 0, 1, 'topk', 'moe', 5), (5, 0, 0, 1, 'combine', 'memcpy', 7),
        (6, 1, 1, 1, 'dispatch', 'collective', 30), (7, 1, 1, 1, 'experts_gate_up', 'moe', 20),
        (8, 1, 1, 1, 'experts_down', 'moe', 10), (9, 1, 1, 1, 'combine', 'collective', 70),
        (10, 1, 1, 1, 'moe_sum', 'moe', 6), (11, 1, NULL, NULL, 'dispatch', 'collective', 9)
    ) AS kernels (id, rank, step_id, layer, role, category, dur);
    CREATE TABLE collective AS
    FROM (
        VALUES
        (0, 0, 7, 2, 8), (3, 0, 7, 0, 10), (6, 1, 7, 0, 30), (9, 1, 7, 60, 10),
        (11, 1, 7, NULL, NULL)
    ) AS operations (kernel_id, rank, communicator_id, wait_ns, transfer_ns);
    CREATE TABLE communicator AS
    SELECT 7 AS communicator_id, '0 1' AS group_ranks, 'data' AS scope;
    CREATE TABLE collective_arrival AS
    FROM (
        VALUES (0, FALSE, 2), (3, TRUE, 60), (6, TRUE, 2), (9, FALSE, 60)
    ) AS arrivals (kernel_id, is_last, wait_ns);
    CREATE TABLE step AS
    FROM (
        VALUES (0, 0, 30, 0), (1, 1, 0, 10), (2, 1, 0, 0)
    ) AS steps (step_id, rank, context_tokens, generation_tokens);
"""


def test_replicas_that_share_experts_are_compared() -> None:
    assert of_replicas("ep.balance") == [
        (None, 0, "0 1", "dispatch/combine", 1, 90, 1.5, 5, 20, 2, 18, 30),
        (None, 1, "0 1", "dispatch/combine", 1, 30, 0.5, 6, 109, 60, 40, 10),
    ]


def test_experts_of_a_layer_are_those_inside_it() -> None:
    assert of_replicas("ep.balance", by="layer") == [
        (1, 0, "0 1", "dispatch/combine", 1, 90, 1.5, 5, 20, 2, 18, 30),
        (1, 1, "0 1", "dispatch/combine", 1, 30, 0.5, 6, 100, 60, 40, 10),
    ]


def test_replicas_wait_for_each_other() -> None:
    assert of_replicas("dp.sync") == [
        # rank, replica, steps, idle, tokens, ratio, operations, stray, wait, transfer, last ...
        (0, 0, 1, 0, 30, 1.5, 2, 0, 2, 18, 1, 50.0, 60, "words"),
        (1, 1, 2, 1, 10, 0.5, 3, 1, 60, 40, 1, 50.0, 2, "words"),
    ]


def of_replicas(name: str, **parameters: Any) -> list[tuple[Any, ...]]:
    con = duckdb.connect()
    con.execute(_REPLICAS)
    query = query_named(name, catalog())
    return con.execute(query.sql, bound(query, parameters)).fetchall()


# --- what a group of ranks is for ----------------------------------------------------------------

_DDP = [traces.host("DistributedDataParallel.forward", ts=0, dur=2, cat="user_annotation")]
_EVERYBODY = {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}


def reduced(folder: Path, *more: traces.Event, groups: list[Row]) -> traceql.Trace:
    """Two ranks that work and sum, in groups that their files list."""
    for rank in range(2):
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        events = [
            traces.launch(ts=1, correlation=1),
            traces.launch(ts=3, correlation=2),
            traces.kernel(ts=5, dur=10, correlation=1),
            traces.kernel(name, ts=15, dur=5, correlation=2),
            *more,
        ]
        info = {"rank": rank, "world_size": 2, "pg_config": groups}
        traces.write(folder / f"rank{rank}.json", *events, distributedInfo=info)
    return traceql.open(folder)


def places(trace: traceql.Trace) -> list[tuple[Any, ...]]:
    rows = trace.select("FROM layout ORDER BY rank").rows()
    return [
        tuple(row[f"{k}_{n}"] for k in ("tp", "pp", "dp") for n in ("rank", "size")) for row in rows
    ]


@pytest.mark.slow
def test_ranks_that_sum_for_no_known_reason_are_not_called_tensor_parallel(tmp_path: Path) -> None:
    with reduced(tmp_path, groups=[_EVERYBODY]) as trace:
        assert places(trace) == [(None,) * 6] * 2
        (source,) = {row["source"] for row in trace.select("SELECT source FROM layout")}
        assert source.endswith("kind of parallelism unknown")
        assert trace.sql("SELECT scope FROM communicator").rows() == [{"scope": "unknown"}]
        assert trace.run("tp.overhead").rows() == []
        assert trace.run("dp.sync").rows() == []
        # What operations cost does not depend on what they are for.
        assert [row["calls"] for row in trace.run("comm.summary")] == [2]


@pytest.mark.slow
def test_gradients_are_summed_over_replicas(tmp_path: Path) -> None:
    with reduced(tmp_path, *_DDP, groups=[_EVERYBODY]) as trace:
        assert places(trace) == [(0, 1, 0, 1, 0, 2), (0, 1, 0, 1, 1, 2)]
        assert trace.sql("SELECT scope FROM communicator").rows() == [{"scope": "data"}]
        assert trace.run("tp.overhead").rows() == []
        assert [row["operations"] for row in trace.run("dp.sync")] == [1, 1]


@pytest.mark.slow
def test_gradients_beside_other_groups_do_not_tell_which_is_which(tmp_path: Path) -> None:
    """Replicas of what? Of two groups of different ranks only one can be that of the gradients."""
    other = {"pg_name": "1", "pg_desc": "undefined", "ranks": [1, 2]}
    with reduced(tmp_path, *_DDP, groups=[_EVERYBODY, other]) as trace:
        assert places(trace) == [(None,) * 6] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("mesh_tp", [(0, 2, 0, 1, 0, 1), (1, 2, 0, 1, 0, 1)]),
        ("TENSOR_MODEL_PARALLEL_GROUP", [(0, 2, 0, 1, 0, 1), (1, 2, 0, 1, 0, 1)]),
        ("PIPELINE_MODEL_PARALLEL_GROUP", [(0, 1, 0, 2, 0, 1), (0, 1, 1, 2, 0, 1)]),
        ("mesh_dp", [(0, 1, 0, 1, 0, 2), (0, 1, 0, 1, 1, 2)]),
    ],
)
def test_programs_say_what_their_groups_are_for(
    description: str, expected: list[tuple[int, ...]], tmp_path: Path
) -> None:
    described = _EVERYBODY | {"pg_name": "1", "pg_desc": description}
    with reduced(tmp_path, groups=[_EVERYBODY, described]) as trace:
        assert places(trace) == expected
        assert bool(trace.run("tp.overhead").rows()) == (expected[0][1] == 2)


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
