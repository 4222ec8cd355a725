"""Two runs in one enriched trace: where they are aligned, and that neither changes the other."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import traces
from command_line import called, refusal
from perfetto_page import the_port
from shared_files import shared_file
from traces import Event, host, kernel, launch, step

import traceql
from traceql.present.pftrace import export_perfetto, export_runs
from traceql.present.pftrace.run_view import (
    FIRST_EVENTS,
    FIRST_KERNELS,
    Alignment,
    Pair,
    align,
    pair_of,
)
from traceql.present.ui.place import place_of_pair
from traceql.readers.trace_processor import TraceProcessor, arrow_table, open_trace_processor

pytestmark = pytest.mark.slow

Row = tuple[Any, ...]

_BLOCK_PER_TOKEN = "reshape_and_cache_flash_kernel"
_ERRORS = "SELECT name, value FROM stats WHERE value > 0 AND severity <> 'info'"
# All slices, without the ids that a trace processor gives.
_SLICES = """
    SELECT
        EXTRACT_ARG(slice.arg_set_id, 'debug.run') AS run, track.name AS track,
        slice.ts, slice.dur, slice.name, slice.category,
        EXTRACT_ARG(slice.arg_set_id, 'debug.sql') AS sql
    FROM slice JOIN track ON slice.track_id = track.id
"""
_ARROWS = """
    SELECT
        EXTRACT_ARG(o.arg_set_id, 'debug.run') AS from_run, o.ts AS from_ts, o.name AS from_name,
        EXTRACT_ARG(i.arg_set_id, 'debug.run') AS to_run, i.ts AS to_ts, i.name AS to_name
    FROM flow JOIN slice o ON slice_out = o.id JOIN slice i ON slice_in = i.id
"""
_SAMPLES = "SELECT name, ts, value FROM counter JOIN track ON track_id = track.id"
_GROUPS = """
    SELECT name
    FROM track
    WHERE parent_id IS NULL
    ORDER BY EXTRACT_ARG(source_arg_set_id, 'sibling_order_rank')
"""


def iteration(
    *, at: float, dur: float, rows: int | None = None, **requests: tuple[int, int]
) -> list[Event]:
    """A step whose kernels start 3 us after it; `rows`, if padding makes them more than tokens."""
    correlation = int(at) + 1
    events = [
        step(ts=at, dur=5, **requests),
        launch(ts=at + 1, correlation=correlation),
        kernel(ts=at + 3, dur=dur, correlation=correlation),
    ]
    if rows is not None:
        where: dict[str, Any] = {"correlation": correlation, "grid": [rows, 1, 1]}
        events.append(kernel(_BLOCK_PER_TOKEN, ts=at + 3, dur=dur, **where))
    return events


_BASE = [
    *iteration(at=0, dur=40, context=(1, 30)),
    *iteration(at=100, dur=30, generation=(2, 2)),
    *iteration(at=200, dur=10, generation=(2, 2)),
    *iteration(at=300, dur=20, generation=(2, 2)),
]
_RUNS: dict[str, dict[int, Sequence[Event]]] = {
    "base": {0: _BASE, 1: _BASE},
    # Steps 2 to 4 are of the base's size; step 0 is of its phase.
    "new": {
        0: [
            *iteration(at=0, dur=90, generation=(9, 9)),
            *iteration(at=1000, dur=30, context=(1, 28)),
            *iteration(at=2000, dur=7, generation=(2, 2)),
            *iteration(at=3000, dur=5, generation=(2, 2)),
            *iteration(at=4000, dur=6, generation=(2, 2)),
        ]
    },
    "padded": {
        1: [
            *iteration(at=50, dur=9, generation=(3, 3), rows=8),
            *iteration(at=90, dur=5, generation=(4, 4)),
        ]
    },
    "without steps": {0: [kernel(ts=20, dur=5), kernel(ts=30, dur=5)]},
    "without a GPU": {0: [host("aten::mm", ts=5, dur=2)]},
}


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, traceql.Run]]:
    with ExitStack() as stack:
        found = {}
        for name, ranks in _RUNS.items():

            def load(target: Path, ranks: dict[int, Sequence[Event]] = ranks) -> None:
                folder = target.with_suffix(".ranks")
                for rank, events in ranks.items():
                    about = {"rank": rank, "world_size": 2}
                    traces.write(folder / f"rank{rank}.json", *events, distributedInfo=about)
                traceql.load(folder, target)

            file = shared_file(f"two-runs-{name.replace(' ', '-')}.duckdb", load)
            found[name] = stack.enter_context(traceql.Run(file))
        yield found


def step_ids(alignment: Alignment) -> tuple[int, int]:
    assert not isinstance(alignment.at, str), alignment
    base, new = alignment.at
    assert (alignment.base_ts, alignment.new_ts) == (base.ts, new.ts)
    return base.step_id, new.step_id


def at(trace: traceql.Run, rank: int, us: float) -> int:
    """The id of the step of a rank that begins then."""
    steps = "SELECT step_id FROM step WHERE rank = $rank AND ts = $ts"
    ((found,),) = trace.sql(steps, {"rank": rank, "ts": round(us * 1000)}).fetchall()
    return int(found)


def all_rows(tp: TraceProcessor, sql: str) -> list[Row]:
    found = [tuple(row.values()) for row in arrow_table(tp, sql).to_pylist()]
    return sorted(found, key=repr)


def test_the_median_steps_of_the_longest_phase_begin_together(
    runs: dict[str, traceql.Run],
) -> None:
    base, new = runs["base"], runs["new"]
    alignment = align(base, new)
    assert step_ids(alignment) == (at(base, 0, 300), at(new, 0, 4000))
    assert (alignment.base_ts, alignment.new_ts) == (303_000, 4_003_000)
    assert alignment.shifts_ns == (3_700_000, 0)
    assert align(new, base).shifts_ns[1] > 0
    assert min(align(new, base).shifts_ns) == 0


def test_a_chosen_step_is_aligned_with_one_of_its_phase_and_the_nearest_size(
    runs: dict[str, traceql.Run],
) -> None:
    base, new = runs["base"], runs["new"]
    chosen = at(base, 0, 0)
    assert step_ids(align(base, new, chosen)) == (chosen, at(new, 0, 1000))
    chosen = at(new, 0, 0)
    assert step_ids(align(new, base, chosen)) == (chosen, at(base, 0, 300))
    on_rank_1 = at(base, 1, 100)
    assert step_ids(align(base, new, on_rank_1)) == (on_rank_1, at(new, 0, 4000))


def test_steps_have_the_rows_that_kernels_run_and_the_lowest_rank_of_both_runs(
    runs: dict[str, traceql.Run],
) -> None:
    """Without padding, 3 tokens would be nearer to 2 than 4 are; the kernels run 8 rows."""
    base, padded = runs["base"], runs["padded"]
    alignment = align(base, padded)
    first = runs["padded"].sql("SELECT MIN(ts) AS ts FROM slice").rows()[0]["ts"]
    assert step_ids(alignment) == (at(base, 1, 300), at(padded, 1, first / 1000 + 40))
    assert [f"{one}" for one in alignment.at] == [
        f"step {at(base, 1, 300)} of rank 1 (decode, 2 rows)", "step 1 of rank 1 (decode, 4 rows)"
    ]  # fmt: skip


def test_without_a_common_phase_first_kernels_begin_together(
    runs: dict[str, traceql.Run],
) -> None:
    base, no_steps, no_gpu = runs["base"], runs["without steps"], runs["without a GPU"]
    assert align(base, no_steps) == Alignment(3_000, 0, FIRST_KERNELS)
    assert align(base, no_gpu) == Alignment(0, 0, FIRST_EVENTS)
    assert place_of_pair(pair_of(base, no_steps)) is None


def test_ranks_stand_side_by_side_and_say_their_run(
    runs: dict[str, traceql.Run], tmp_path: Path
) -> None:
    pair = pair_of(runs["base"], runs["new"])
    with written(pair, tmp_path) as tp:
        groups = [row["name"] for row in arrow_table(tp, _GROUPS).to_pylist()]
        same_at_once = all_rows(tp, f"{_SLICES} WHERE slice.ts = 4003000 AND track.name = 'Steps'")
    ranks = [name for name in groups if name.startswith("rank ")]
    assert ranks == ["rank 0 · base · GPU 0", "rank 0 · new · GPU 0", "rank 1 · base · GPU 0"]
    assert ranks == sorted(ranks)  # the Perfetto UI goes by names at the top
    assert [(row[0], row[4]) for row in same_at_once] == [
        ("base", "decode · 2 tokens"), ("base", "decode · 2 tokens"), ("new", "decode · 2 tokens"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("base", "new"), [("base", "new"), ("new", "new"), ("without a GPU", "padded")]
)
def test_neither_run_changes_the_other(
    base: str, new: str, runs: dict[str, traceql.Run], tmp_path: Path
) -> None:
    """The file with two runs has the slices, arrows and samples of the two files, moved."""
    pair = pair_of(runs[base], runs[new])
    slices: list[Row] = []
    arrows: list[Row] = []
    samples: list[Row] = []
    for run in (pair.base, pair.new):
        by, label = run.shift_ns, run.label
        with open_trace_processor(export_perfetto(run.database, tmp_path / "one.pftrace")) as tp:
            slices += [
                (label, track, ts + by, *rest) for _, track, ts, *rest in all_rows(tp, _SLICES)
            ]
            arrows += [
                (label, start + by, name, label, end + by, to)
                for _, start, name, _, end, to in all_rows(tp, _ARROWS)
            ]
            samples += [(name, ts + by, value) for name, ts, value in all_rows(tp, _SAMPLES)]
    with written(pair, tmp_path) as tp:
        assert arrow_table(tp, _ERRORS).to_pylist() == []
        assert all_rows(tp, _SLICES) == sorted(slices, key=repr)
        assert all_rows(tp, _ARROWS) == sorted(arrows, key=repr)
        assert all_rows(tp, _SAMPLES) == sorted(samples, key=repr)
    assert min(ts for _, _, ts, *_ in slices) >= 0


def written(pair: Pair, folder: Path) -> TraceProcessor:
    return open_trace_processor(export_runs([pair.base, pair.new], folder / "both.pftrace"))


def test_export_says_what_is_aligned(runs: dict[str, traceql.Run], tmp_path: Path) -> None:
    base, new = runs["base"].path, runs["new"].path
    target = tmp_path / "both.pftrace"
    done = called("export", "perfetto", base, new, "--step", "0", "-o", target)
    assert (done.returncode, done.stdout.decode()[:6]) == (0, "wrote ")
    assert done.stderr.decode() == (
        f"Aligned: base {base} at step 0 of rank 0 (prefill, 30 rows), "
        f"new {new} at step 1 of rank 0 (prefill, 28 rows).\n"
    )
    assert list(tmp_path.iterdir()) == [target]
    without = runs["without steps"].path
    done = called("export", "perfetto", base, without, "-o", target)
    assert done.stderr.decode() == (
        "Aligned at their first kernels: no phase of steps is in both, "
        f"base {base} and new {without}.\n"
    )


def test_mistakes_are_one_line_and_write_nothing(
    runs: dict[str, traceql.Run], tmp_path: Path
) -> None:
    base, new = runs["base"].path, runs["new"].path
    refused = refusal("ui", base, new, "--rank", "0", status=2)
    assert refused == "Error: --rank is for one run; leave it out, or name only one"
    target = tmp_path / "both.pftrace"
    to = ("-o", target)
    missing = tmp_path / "missing.duckdb"
    assert "does not exist" in refusal("export", "perfetto", base, missing, *to)
    assert "no step 99" in refusal("export", "perfetto", base, new, "--step", "99", *to)
    padded = ("export", "perfetto", base, runs["padded"].path, "--step", "0")
    assert "has no prefill steps on rank 1; name another" in refusal(*padded, *to)
    assert "name a second run" in refusal("export", "perfetto", base, "--step", "0", status=2)
    (trace,) = runs["without steps"].sql("SELECT path FROM trace")
    no_steps = runs["without steps"].path
    onto_itself = refusal("export", "perfetto", base, no_steps, "-o", trace["path"])
    assert onto_itself.endswith("is a trace of this run; name another file with -o")
    with the_port():
        assert "no step 99" in refusal("ui", base, new, "--step", "99")
        assert "does not exist" in refusal("ui", base, missing)
    assert list(tmp_path.iterdir()) == []
