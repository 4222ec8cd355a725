"""host.flame: every nanosecond that a thread was in an event is in one stack, and only there."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import databases
import pytest
from command_line import called, output, refusal
from traces import host, kernel, launch, loaded, step

import traceql
from traceql.result.chart.draw import drawn
from traceql.sql.query import query_named, shipped_queries

pytestmark = pytest.mark.slow

THREAD = "rank 0"

# A prefill step from 10 to 30 and a decode step from 40 to 50. A Python frame lasts from 20 to 48.
TWO_STEPS = (
    host("warm up", ts=0, dur=5),
    step(ts=10, dur=8, context=(1, 8)),
    launch(ts=11, dur=2, correlation=1),
    kernel(ts=14, dur=2, correlation=1),
    host("a.py(1): loop", ts=20, dur=28, cat="python_function"),
    host("nn.Module: Norm_0", ts=21, dur=4, cat="python_function"),
    host("nn.Module: Norm_1", ts=26, dur=3, cat="python_function"),
    host("aten::mm", ts=27, dur=1),
    step(ts=40, dur=6, generation=(1, 1)),
    host("nn.Module: Norm_2", ts=41, dur=2, cat="python_function"),
    host("of another thread", ts=0, dur=60, tid=7),
)


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[traceql.Trace]:
    with loaded(tmp_path_factory.mktemp("two-steps"), TWO_STEPS) as trace:
        yield trace


def tree(trace: traceql.Trace, **parameters: Any) -> list[tuple[Any, ...]]:
    """Phase, depth, name, kind, total, own, calls and start of each row, in us."""
    return [
        (row["phase"], row["depth"], row["name"], row["kind"], row["total_ns"] / 1000,
         row["self_ns"] / 1000, row["calls"], row["start_ns"] / 1000)
        for row in trace.run("host.flame", **parameters)
    ]  # fmt: skip


def test_events_of_one_name_in_one_stack_are_one_row_and_are_divided_between_phases(
    two_steps: traceql.Trace,
) -> None:
    assert tree(two_steps, min_pct=0) == [
        (None, 0, THREAD, "thread", 41, 0, None, 0),
        ("prefill", 1, "prefill", "phase", 28, 0, None, 0),
        ("prefill", 2, "a.py(1): loop", "python", 20, 13, 1, 0),
        ("prefill", 3, "nn.Module: Norm", "python", 7, 6, 2, 0),
        ("prefill", 4, "aten::mm", "operator", 1, 1, 1, 0),
        ("prefill", 2, "execute_model", "annotation", 8, 6, 1, 20),
        ("prefill", 3, "cudaLaunchKernel", "runtime", 2, 2, 1, 20),
        # The frame began in the prefill step, so it counts there.
        ("decode", 1, "decode", "phase", 8, 0, None, 28),
        ("decode", 2, "a.py(1): loop", "python", 8, 2, 0, 28),
        ("decode", 3, "execute_model", "annotation", 6, 4, 1, 28),
        ("decode", 4, "nn.Module: Norm", "python", 2, 2, 1, 28),
        (None, 1, "(no phase)", "phase", 5, 0, None, 36),
        (None, 2, "warm up", "operator", 5, 5, 1, 36),
    ]
    assert tree(two_steps, min_pct=0, phase="decode")[1:] == [
        ("decode", 1, "decode", "phase", 8, 0, None, 0),
        ("decode", 2, "a.py(1): loop", "python", 8, 2, 0, 0),
        ("decode", 3, "execute_model", "annotation", 6, 4, 1, 0),
        ("decode", 4, "nn.Module: Norm", "python", 2, 2, 1, 0),
    ]


def test_small_frames_become_a_remainder_of_the_frame_around_them(
    two_steps: traceql.Trace,
) -> None:
    # 20% of 41 us are 8.2 us.
    assert tree(two_steps, min_pct=20) == [
        (None, 0, THREAD, "thread", 41, 0, None, 0),
        ("prefill", 1, "prefill", "phase", 28, 0, None, 0),
        ("prefill", 2, "a.py(1): loop", "python", 20, 13, 1, 0),
        ("prefill", 3, "(smaller frames)", "smaller", 7, 7, 2, 0),
        ("prefill", 2, "(smaller frames)", "smaller", 8, 8, 1, 20),
        ("decode", 1, "decode", "phase", 8, 0, None, 28),
        ("decode", 2, "(smaller frames)", "smaller", 8, 8, 0, 28),
        (None, 1, "(no phase)", "phase", 5, 0, None, 36),
        (None, 2, "(smaller frames)", "smaller", 5, 5, 1, 36),
    ]


def test_events_that_overlap_without_nesting_count_once(tmp_path: Path) -> None:
    """An annotation that begins in one frame and ends after it, as vLLM's do between two frames."""
    events = (
        host("outer", ts=0, dur=10, cat="python_function"),
        launch(ts=2, correlation=1),
        kernel(ts=4, dur=1, correlation=1),
        host("crossing", ts=8, dur=7, cat="user_annotation"),
        host("inside", ts=9, dur=5),
        host("hidden", ts=8.5, dur=0.2),
    )
    with loaded(tmp_path, events) as trace:
        rows = {row[2]: row[4:] for row in tree(trace, min_pct=0) if row[1] >= 2}
    assert rows["outer"][0] == 10
    assert rows["crossing"][:2] == (5, 1)  # from 10 to 15, but inside from 10 to 14
    assert rows["inside"][:2] == (4, 4)
    assert sum(own for _, own, *_ in rows.values()) == 15


@pytest.mark.parametrize("name", databases.cases(databases.SHORT))
def test_no_nanosecond_is_lost_and_none_counts_twice(name: str) -> None:
    trace = databases.trace(name)
    all_frames = trace.run("host.flame", min_pct=0).rows()
    assert_adds_up(all_frames)
    assert sum(row["self_ns"] for row in all_frames) == covered_ns(trace)
    large = trace.run("host.flame", min_pct=2).rows()
    assert_adds_up(large)
    assert len(large) < len(all_frames)
    assert sum(row["self_ns"] for row in large) == covered_ns(trace)
    calls = trace.sql(f"SELECT COUNT(*) AS n FROM slice WHERE track_id IN ({_LAUNCHING})").rows()
    assert sum(row["calls"] or 0 for row in all_frames) <= calls[0]["n"]


_LAUNCHING = "SELECT track_id FROM slice WHERE id IN (SELECT launch_id FROM kernel)"


def covered_ns(trace: traceql.Trace) -> int:
    """The time that launching threads spent in events, one event after the other."""
    events = trace.sql(
        f"SELECT track_id, ts, ts + dur AS end_ts FROM slice WHERE track_id IN ({_LAUNCHING})"
        " ORDER BY track_id, ts"
    ).df()
    covered = 0
    for _, of_track in events.groupby("track_id"):
        until = of_track["end_ts"].cummax().shift(fill_value=of_track["ts"].iloc[0])
        begin = of_track["ts"].clip(lower=until)
        covered += int((of_track["end_ts"] - begin).clip(lower=0).sum())
    return covered


def assert_adds_up(rows: list[dict[str, Any]]) -> None:
    """Each row is as long as its self time and the rows inside it, which lie side by side in it."""
    around: list[dict[str, Any]] = []
    inside: Counter[int] = Counter()
    for place, row in enumerate(rows):
        row["place"] = place
        del around[row["depth"] :]
        assert len(around) == row["depth"]
        if around:
            outer = around[-1]
            assert row["stack"].startswith(outer["stack"] + ";")
            assert row["start_ns"] == outer["start_ns"] + inside[outer["place"]]
            inside[outer["place"]] += row["total_ns"]
        around.append(row)
    assert all(row["total_ns"] == row["self_ns"] + inside[row["place"]] for row in rows)
    assert all(row["self_ns"] >= 0 for row in rows)


# --- folded stacks -------------------------------------------------------------------------------

ODD_NAMES = (
    host("f<a;b>\nof c 12", ts=0, dur=10),
    host("\x1b[31mred", ts=2, dur=3),
    host("", ts=20, dur=1),
)


def parsed(text: str) -> dict[tuple[str, ...], int]:
    """The stacks as flamegraph.pl reads them: the number after the last space, frames between ;"""
    lines = [re.fullmatch(r"(.*)\s+?(\d+)", line) for line in text.removesuffix("\n").split("\n")]
    assert all(lines)
    return {tuple(line[1].split(";")): int(line[2]) for line in lines if line}


@pytest.fixture(scope="module")
def odd_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd-names")
    loaded(folder, ODD_NAMES).close()
    return folder / "run.duckdb"


def test_folded_stacks_have_one_line_for_each_stack_whatever_the_names(odd_names: Path) -> None:
    written = output("run", "host.flame", odd_names, "--format", "folded")
    around = (THREAD, "(no phase)")
    assert parsed(written) == {
        (*around, "f<a,b> of c 12"): 7_000,
        (*around, "f<a,b> of c 12", r"\x1b[31mred"): 3_000,
        (*around, "(no name)"): 1_000,
    }


def test_any_statement_with_stacks_can_be_folded(odd_names: Path) -> None:
    statement = (
        "SELECT * FROM (VALUES (2, 'a;b'), (0, 'a'), (NULL, 'c'), (5, NULL)) s(self_ns, stack)"
    )
    assert output("sql", odd_names, statement, "--format", "folded") == "a;b 2\n(no stack) 5\n"
    refused = refusal("sql", odd_names, "SELECT 1 AS self_ns", "--format", "folded")
    assert "needs the columns stack and self_ns; query host.flame has them" in refused


def test_without_host_events_it_prints_why(tmp_path: Path) -> None:
    loaded(tmp_path, [kernel(ts=0, dur=1)]).close()
    done = called("run", "host.flame", tmp_path / "run.duckdb", "--format", "folded")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"no rows: no host events were recorded" in done.stderr


# --- the chart -----------------------------------------------------------------------------------


def test_trees_are_drawn_below_each_other_with_the_outermost_frame_on_top(tmp_path: Path) -> None:
    with loaded(tmp_path, TWO_STEPS, TWO_STEPS) as trace:
        table = trace.run("host.flame", min_pct=0).arrow()
        chart = query_named("host.flame", shipped_queries()).head.chart
        assert chart is not None
        (rows,) = drawn(table, chart, width=720).to_dict()["datasets"].values()
        places = {(row["name"], row["start"], row["end"], row["top"], row["share"]) for row in rows}
        assert (THREAD, 0, 41, 0, "100.00%") in places
        assert ("aten::mm", 0, 1, 4, "2.44%") in places
        # Five rows and the space of half a row below the first.
        assert ("rank 1", 0, 41, 5.5, "100.00%") in places
        assert ("aten::mm", 0, 1, 9.5, "2.44%") in places
