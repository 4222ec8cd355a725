"""Excerpts: what they have of a run, compared with the database of the whole run row by row."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import databases
import nsys_samples
import pytest
from test_ascend_written import ONE, written
from traces import all_reduce, host, kernel, launch, loaded, step

import traceql
from traceql.database.excerpt.rows import RULES
from traceql.sql.definition import Kind
from traceql.sql.registry import definitions

TP4 = "qwen3-32b-tp4-graph-nccl"
PP2 = "qwen3-8b-pp2-graph"
_EVENTS = (
    "activity", "counter", "instant", "memory", "kernel", "kernel_module", "collective", "flow",
)  # fmt: skip
_STEP_QUERIES = (
    "steps.anatomy", "step.waterfall", "step.floor", "layers.roles", "kernels.top",
    "kernels.by_category", "efficiency.roles",
)  # fmt: skip
_MORE = ("ascend", TP4, databases.BATCH16, "nsys", PP2, "qwen3-30b-a3b-tp4-ep-graph")


@pytest.fixture(
    scope="module",
    params=["qwen3-8b-tp1-graph", *(pytest.param(one, marks=pytest.mark.slow) for one in _MORE)],
)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> traceql.Run:
    """Runs of one, two and four ranks, with CUDA graphs and without, of three profilers."""
    folder = tmp_path_factory.mktemp("whole")
    if request.param == "ascend":
        return traceql.open(traceql.load(written(folder, *ONE), folder / "ascend.duckdb").database)
    if request.param != "nsys":
        return databases.trace(request.param)
    file = nsys_samples.unpacked("qwen3-8b-2layers-graph-node", folder / "graph.sqlite")
    return traceql.open(traceql.load(file, folder / "nsys.duckdb").database)


@pytest.fixture(scope="module")
def edges(whole: traceql.Run) -> list[int]:
    """Times that cut a run into windows: through its steps, and where an event begins or ends."""
    (span,) = whole.sql("""
        SELECT MIN(ts) AS first, MAX(end_ts) AS last FROM (
            SELECT ts, ts + GREATEST(dur, 0) AS end_ts FROM slice
            UNION ALL SELECT ts, ts FROM instant
            UNION ALL SELECT ts, ts FROM counter
            UNION ALL SELECT ts, ts FROM memory
        )
    """)
    (event,) = whole.sql("SELECT quantile_disc(ts, 0.6) AS ts FROM kernel")
    (end,) = whole.sql("SELECT quantile_disc(ts + dur, 0.3) AS ts FROM kernel")
    third = span["first"] + (span["last"] - span["first"]) // 3
    return sorted({span["first"], third, event["ts"], end["ts"], span["last"] + 1})


@pytest.fixture(scope="module")
def windows(whole: traceql.Run, edges: list[int]) -> Iterator[list[traceql.Run]]:
    """The excerpts between these times."""
    found = [whole.excerpt(from_ns=start, to_ns=end) for start, end in pairwise(edges)]
    yield found
    for one in found:
        one.close()


def test_tables_that_nothing_else_makes_have_a_rule() -> None:
    sources = {name for name, one in definitions().items() if one.kind is Kind.SOURCE}
    kept = {name for name, one in definitions().items() if one.kind.is_kept}
    assert sources <= set(RULES) <= kept


@pytest.mark.slow
@pytest.mark.parametrize("table", _EVENTS)
def test_windows_share_out_the_events(
    whole: traceql.Run, windows: list[traceql.Run], table: str
) -> None:
    columns = "* EXCLUDE (step_id, pass, layer)" if table == "kernel" else "*"
    select = f"SELECT {columns} FROM {table}"
    shared = Counter(str(row) for one in windows for row in one.select(select))
    assert shared == Counter(str(row) for row in whole.select(select))


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("device_state", "rank, device, compute, comm, copy"),
        ("device_timeline", "rank, device, part, cause, is_overlapped, phase"),
        ("gap", "rank, device, cause"),
    ],
)
def test_windows_share_out_the_time_of_devices(
    whole: traceql.Run, windows: list[traceql.Run], table: str, columns: str
) -> None:
    select = f"SELECT {columns}, SUM(dur) AS ns FROM {table} GROUP BY ALL"
    shared: Counter[tuple[Any, ...]] = Counter()
    for one in windows:
        shared.update({tuple(row.values())[:-1]: row["ns"] for row in one.select(select)})
    assert shared == {tuple(row.values())[:-1]: row["ns"] for row in whole.select(select)}


def test_time_that_was_lost_adds_up_in_each_window(windows: list[traceql.Run]) -> None:
    lost = "SELECT rank, SUM(ns) AS ns FROM lost_time GROUP BY rank ORDER BY rank"
    parts = """
        SELECT rank, SUM(dur) AS ns FROM device_timeline
        WHERE part IN ('idle', 'exposed_wait') GROUP BY rank ORDER BY rank
    """
    for one in windows:
        assert one.select(lost).rows() == one.select(parts).rows()


def test_slices_are_those_of_the_window(
    whole: traceql.Run, windows: list[traceql.Run], edges: list[int]
) -> None:
    """By hand: what begins in it, or is open when it begins; a kernel is in one window only."""
    kernels = {row["id"] for row in whole.select("SELECT id FROM activity")}
    slices = whole.sql("SELECT id, name, ts, dur FROM slice").rows()
    for one, (start, end) in zip(windows, pairwise(edges), strict=True):
        expected: Counter[tuple[str, int, int]] = Counter()
        for row in slices:
            name, ts, until = row["name"], row["ts"], row["ts"] + row["dur"]
            if row["id"] in kernels:
                expected[name, ts, row["dur"]] += start <= ts < end
            elif start <= ts < end:
                expected[name, ts, min(until, end) - ts] += 1
            elif ts < start < until:
                expected[name, start, min(until, end) - start] += 1
        found = one.sql("SELECT name, ts, dur FROM slice").rows()
        assert Counter(tuple(row.values()) for row in found) == +expected


def test_slices_that_an_edge_cuts_are_listed_as_recorded(
    whole: traceql.Run, windows: list[traceql.Run]
) -> None:
    recorded = set(whole.sql("SELECT id, ts, dur FROM slice").fetchall())
    for one in windows:
        pieces = one.select("SELECT slice_id, ts, dur FROM excerpt_piece").fetchall()
        assert set(pieces) <= recorded


def test_parents_are_there_and_around_their_slices(windows: list[traceql.Run]) -> None:
    lost = """
        SELECT child.id
        FROM slice AS child
        LEFT JOIN slice AS parent ON child.parent_id = parent.id
        WHERE child.parent_id IS NOT NULL AND (parent.id IS NULL OR parent.ts > child.ts)
    """
    for one in windows:
        assert one.select(lost).rows() == []
        assert one.select("SELECT id FROM slice GROUP BY id HAVING COUNT(*) > 1").rows() == []


def test_steps_of_a_window_are_whole(
    whole: traceql.Run, windows: list[traceql.Run], edges: list[int]
) -> None:
    """Every one that an edge does not cut, on this rank or on another one."""
    steps = whole.select("""
        SELECT
            step.step_id, iteration, LEAST(step.ts, gpu_ts) AS ts,
            GREATEST(step.ts + step.dur, gpu_ts + gpu_dur) AS end_ts
        FROM step INNER JOIN aligned_step USING (step_id)
    """).rows()
    for one, (start, end) in zip(windows, pairwise(edges), strict=True):
        cut = {
            row["iteration"] for row in steps
            if row["ts"] < end and row["end_ts"] >= start
            and not (row["ts"] >= start and row["end_ts"] < end)
        }  # fmt: skip
        expected = {
            row["step_id"] for row in steps
            if row["iteration"] not in cut and start <= row["ts"] and row["end_ts"] < end
        }  # fmt: skip
        assert {row["step_id"] for row in one.sql("SELECT step_id FROM step")} == expected
        named = one.sql("SELECT DISTINCT step_id FROM kernel WHERE step_id IS NOT NULL")
        assert {row["step_id"] for row in named} <= expected


def equal(whole: traceql.Run, part: traceql.Run, step: int) -> None:
    for query in _STEP_QUERIES:
        assert part.query(query, step=step).rows() == whole.query(query, step=step).rows(), query
    broken = [
        [row for row in one.query("time.breakdown", by="step") if row["step_id"] == step]
        for one in (whole, part)
    ]
    assert broken[0] == broken[1]
    for table in ("step", "layer", "waterfall", "role_time", "step_time", "step_tokens"):
        select = f"SELECT * FROM {table} WHERE step_id = $step ORDER BY ALL"
        found = [one.select(select, {"step": step}).rows() for one in (whole, part)]
        assert found[0] == found[1], table


@pytest.mark.slow
def test_numbers_of_whole_steps_are_those_of_the_run(whole: traceql.Run) -> None:
    (middle,) = whole.sql("""
        SELECT quantile_disc(step_id, 0.4) AS first FROM step
        WHERE rank = (SELECT MIN(rank) FROM step) AND gpu_ts IS NOT NULL
    """)
    (end,) = whole.sql("SELECT MAX(step_id) AS last FROM step")
    first, last = middle["first"], min(middle["first"] + 1, end["last"])
    with whole.excerpt(steps=(first, last)) as part:
        steps = [row["step_id"] for row in part.sql("SELECT step_id FROM step ORDER BY step_id")]
        assert {first, last} <= set(steps)
        assert len(steps) == len({first, last}) * len(whole.tables["trace"])
        for step in steps:
            equal(whole, part, step)
        # The critical path of a step begins where the step before ends, which the first one lacks.
        found, expected = (one.query("step.critical", step=last).rows() for one in (part, whole))
        assert found == expected


@pytest.mark.slow
def test_every_query_and_table_works(windows: list[traceql.Run]) -> None:
    for query in windows[1].queries:
        windows[1].query(query)
    for name, one in definitions().items():
        if one.kind.is_kept:
            windows[1].select(f"SELECT * FROM {name}")


@pytest.mark.slow
def test_a_sample_keeps_the_mix_of_phases() -> None:
    whole = databases.trace(TP4)
    with whole.excerpt(sample=3) as part:
        phases = part.sql("SELECT rank, phase, COUNT(*) AS n FROM step GROUP BY ALL ORDER BY ALL")
        # Of 1 prefill step, 5 decode steps and 1 idle step: the first one, and each third after it.
        assert phases.rows() == [
            {"rank": rank, "phase": phase, "n": n}
            for rank in range(4)
            for phase, n in (("decode", 2), ("idle", 1), ("prefill", 1))
        ]
        numbers = part.sql("SELECT DISTINCT number FROM step WHERE phase = 'decode' ORDER BY 1")
        assert [row["number"] for row in numbers] == [1, 4]
        headlines = {row["headline"] for row in part.query("overview.headlines")}
        assert "decode step" in headlines
        assert "output" not in headlines  # what ran between the windows is not known


def test_a_part_says_which_share_it_has() -> None:
    whole = databases.trace(TP4)
    kernels, ns = (
        whole.sql(f"SELECT {what} AS n FROM kernel WHERE ts >= 165e6 AND ts < 190e6").rows()[0]["n"]
        for what in ("COUNT(*)", "SUM(dur)")
    )
    (total,) = whole.sql("SELECT COUNT(*) AS n, SUM(dur) AS ns FROM kernel")
    with whole.excerpt(from_ns=165_000_000, to_ns=190_000_000) as part:
        (row,) = part.select("FROM excerpt")
        assert (row["kernels"], row["kernel_ns"]) == (kernels, ns)
        assert (row["all_kernels"], row["all_kernel_ns"]) == (total["n"], total["ns"])
        assert (row["steps"], row["all_steps"]) == (4, 28)
        assert part.excerpt_info is not None
        assert part.excerpt_info.text == row["text"]
        assert (
            f"{kernels:,} of {total['n']:,} kernels ({100 * kernels / total['n']:.1f} %)"
            in row["text"]
        )
        assert "0.165 s to 0.190 s of 0.216912 s" in row["text"]
        assert part.excerpt_options == "--from 0.165s --to 0.19s"
        ledger = part.query("quality.ledger").rows()
    assert whole.excerpt_info is None
    of_part = [row for row in ledger if row["check_name"] == "excerpt"]
    assert sum(row["value"] for row in of_part) == kernels
    assert sum(row["total"] for row in of_part) == total["n"]
    for row in ledger:
        assert row["note"].startswith("whole run: ") or row["check_name"] in (
            "excerpt", "idle in gaps",
        )  # fmt: skip
        assert row["ok"] is not False


@pytest.mark.slow
@pytest.mark.parametrize("name", [TP4, PP2])
def test_an_excerpt_of_an_excerpt_is_one_of_the_run(name: str) -> None:
    whole = databases.trace(name)
    counts = """
        SELECT source, kernels, all_kernels, kernel_ns, all_kernel_ns, steps, all_steps, first_ts,
            last_ts
        FROM excerpt
    """
    tables = ("slice", "kernel", "collective", "gap", "device_timeline", "launch", "excerpt_piece")
    with (
        whole.excerpt(steps=(3, 6)) as first,
        first.excerpt(steps=4) as again,
        whole.excerpt(steps=4) as at_once,
    ):
        for select in (counts, *(f"SELECT * FROM {table} ORDER BY ALL" for table in tables)):
            assert again.select(select).rows() == at_once.select(select).rows(), select
        for (step,) in again.sql("SELECT step_id FROM step").fetchall():
            equal(whole, again, step)
        folder = again.path.parent
    assert not folder.exists()


@pytest.mark.slow
def test_queued_kernels_that_start_later_count(tmp_path: Path) -> None:
    """Five launches of 1 µs each, one after the other; their kernels run one by one from 100 µs."""
    events = [
        event
        for n in range(5)
        for event in (
            launch(ts=10 * n, dur=1, correlation=n + 1),
            kernel("gemm", ts=100 + 10 * n, dur=10, correlation=n + 1),
        )
    ]
    with loaded(tmp_path, events) as whole, whole.excerpt(from_ns=15_000, to_ns=105_000) as part:
        found = part.select("SELECT ts, queued FROM launch_queue ORDER BY ts").rows()
        launched = part.sql("SELECT ts FROM launch ORDER BY ts").rows()
    assert [tuple(row.values()) for row in found] == [
        (20_000, 3), (30_000, 4), (40_000, 5), (100_000, 4)
    ]  # fmt: skip
    # The call that launched the kernel in the window is there, though it was before the window.
    assert [row["ts"] for row in launched] == [0, 20_000, 30_000, 40_000]


@pytest.mark.slow
def test_a_slice_of_several_windows_is_in_each(tmp_path: Path) -> None:
    """A frame around two steps: each window has what it has of the frame, with the steps inside."""
    events = [host("frame", ts=0, dur=1000)]
    for n in range(4):
        start = 100 + 200 * n
        events += [
            step(ts=start, dur=50, generation=(1, 1)),
            host("op", ts=start + 10, dur=20),
            launch(ts=start + 15, dur=5, correlation=n + 1),
            kernel("gemm", ts=start + 25, dur=10, correlation=n + 1),
        ]
    with loaded(tmp_path, events) as whole, whole.excerpt(sample=2) as part:
        frames = part.sql("SELECT id, ts, dur FROM slice WHERE name = 'frame' ORDER BY ts").rows()
        around = part.sql("""
            SELECT op.ts, frame.ts AS frame_ts
            FROM slice AS op
            INNER JOIN slice AS step ON op.parent_id = step.id
            INNER JOIN slice AS frame ON step.parent_id = frame.id
            WHERE op.name = 'op'
            ORDER BY op.ts
        """).rows()
    assert [(row["ts"], row["dur"]) for row in frames] == [(100_000, 50_001), (500_000, 50_001)]
    assert len({row["id"] for row in frames}) == 2
    assert [tuple(row.values()) for row in around] == [(110_000, 100_000), (510_000, 500_000)]


@pytest.mark.slow
def test_who_was_late_before_the_window_is_still_known(tmp_path: Path) -> None:
    """Rank 0 waits 60 µs for rank 1. The window begins while it waits."""
    ranks = [
        [kernel("gemm", ts=0, dur=10), all_reduce(ts=20, dur=80, ranks=[0, 1])],
        [kernel("gemm", ts=0, dur=70), all_reduce(ts=80, dur=20, ranks=[0, 1])],
    ]
    with loaded(tmp_path, *ranks) as whole, whole.excerpt(from_ns=50_000) as part:
        lost = part.sql("""
            SELECT rank, root_rank, ns FROM lost_time WHERE part = 'exposed_wait'
        """).rows()
    assert lost == [{"rank": 0, "root_rank": 1, "ns": 30_000}]
