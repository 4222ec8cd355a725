"""The enriched trace, as Perfetto's trace processor reads it, against the database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import databases
import duckdb
import pytest
from shared_files import shared_file
from traces import kernel, launch, loaded, step

import traceql
from traceql.errors import TraceqlError
from traceql.present.pftrace import export_perfetto
from traceql.readers.trace_processor import TraceProcessor, arrow_table, open_trace_processor

Row = tuple[Any, ...]

_ERRORS = "SELECT name, value FROM stats WHERE value > 0 AND severity <> 'info'"
# Tracks of slices: their own name, the group's where they are in one, their rank's.
_SLICES = """
    SELECT
        CAST(SUBSTR(COALESCE(above.name, parent.name), 6) AS INT) AS rank,
        parent.name AS parent, track.name AS track,
        slice.ts, slice.dur, slice.name, slice.category AS cat, slice.depth, slice.id, {arguments}
    FROM slice
    JOIN track ON slice.track_id = track.id
    JOIN track AS parent ON track.parent_id = parent.id
    LEFT JOIN track AS above ON parent.parent_id = above.id
"""


_ARROWS = """
    SELECT o.name, i.name AS in_name
    FROM flow JOIN slice o ON slice_out = o.id JOIN slice i ON slice_in = i.id
"""
_LAUNCHING = """
    SELECT
        EXTRACT_ARG(o.arg_set_id, 'debug.id') AS launch,
        EXTRACT_ARG(i.arg_set_id, 'debug.id') AS kernel
    FROM flow JOIN slice o ON slice_out = o.id JOIN slice i ON slice_in = i.id
    WHERE i.category NOT IN ('communication', 'finding')
"""


@pytest.fixture(scope="module")
def trace(request: pytest.FixtureRequest) -> traceql.Run:
    return databases.trace(request.param)


@pytest.fixture(scope="module")
def tp(trace: traceql.Run) -> Iterator[TraceProcessor]:
    """The enriched trace, opened once for all tests of this run."""
    name = f"{trace.path.stem}.pftrace"
    file = shared_file(name, lambda path: export_perfetto(trace, path))
    with open_trace_processor(file) as opened:
        yield opened


def of_runs(names: Sequence[str] = databases.SHORT) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("trace", databases.cases(names), indirect=True, scope="module")


of_four_ranks = of_runs(["qwen3-32b-tp4-graph-nccl"])


@contextmanager
def enriched(trace: traceql.Run, folder: Path) -> Iterator[TraceProcessor]:
    with open_trace_processor(export_perfetto(trace, folder / "run.pftrace")) as tp:
        yield tp


def slices(tp: TraceProcessor, where: str, *columns: str) -> list[Row]:
    """These columns of slices, sorted; other names than those of _SLICES are annotations."""
    own = ("rank", "parent", "track", "ts", "dur", "name", "cat", "depth", "id")
    arguments = ", ".join(
        f"EXTRACT_ARG(slice.arg_set_id, 'debug.{name}') AS {name}"
        for name in columns if name not in own
    )  # fmt: skip
    source = _SLICES.format(arguments=arguments or "NULL")
    return sorted(rows(tp, f"SELECT {', '.join(columns)} FROM ({source}) WHERE {where}"), key=repr)


def rows(tp: TraceProcessor, sql: str) -> list[Row]:
    return [tuple(row.values()) for row in arrow_table(tp, sql).to_pylist()]


# Slices of the enriched trace, and the rows that they are in the database.
_SAME = [
    ("track = 'Layers'", "rank, ts, dur, layer", "SELECT rank, ts, dur, layer FROM layer"),
    ("cat = 'idle'", "rank, ts, dur, name", "SELECT rank, ts, dur, 'idle · ' || cause FROM gap"),
    (
        "cat IN ('kernel', 'memcpy', 'memset') AND track LIKE 'stream %'",
        "rank, track, ts, dur, name, role",
        "SELECT rank, 'stream ' || stream, ts, dur, name, role FROM kernel",
    ),
    (
        "track = 'Steps'",
        "rank, ts, dur, step_id",
        "SELECT rank, COALESCE(gpu_ts, ts), COALESCE(gpu_dur, dur), step_id FROM step",
    ),
    (
        "parent IN ('Host threads', 'GPU annotations')",
        "rank, ts, dur, name, cat",
        """
        SELECT rank, ts, dur, name, COALESCE(cat, '') AS cat FROM slice
        WHERE id NOT IN (SELECT id FROM activity)
        """,
    ),
]


@pytest.mark.slow
@of_runs()
def test_every_trace_comes_through_exactly(trace: traceql.Run, tp: TraceProcessor) -> None:
    assert rows(tp, _ERRORS) == []
    for where, columns, sql in _SAME:
        found = slices(tp, where, *columns.split(", "))
        assert found == sorted(trace.select(sql).fetchall(), key=repr), where


@pytest.mark.slow
@of_runs(databases.OWN_SHORT)
def test_roles_hold_their_kernels_and_no_others(trace: traceql.Run, tp: TraceProcessor) -> None:
    """Each kernel is in one run of its role and layer, and each run begins and ends with one."""
    columns = "rank, role, layer, step_id, ts, ts + dur"
    kernels = trace.sql(f"SELECT {columns} FROM kernel WHERE role IS NOT NULL").fetchall()
    runs = slices(tp, "cat = 'role'", "rank", "name", "layer", "step_id", "ts", "dur", "kernels")
    assert sum(run[-1] for run in runs) == len(kernels)
    inside: dict[Row, list[tuple[int, int]]] = {}
    for *key, begin, end in kernels:
        inside.setdefault(tuple(key), []).append((begin, end))
    for *key, ts, dur, count in runs:
        its = [k for k in inside[tuple(key)] if ts <= k[0] and k[1] <= ts + dur]
        assert len(its) >= count
        assert (min(k[0] for k in its), max(k[1] for k in its)) == (ts, ts + dur)


@of_runs()
def test_each_kernel_has_an_arrow_from_its_launch(trace: traceql.Run, tp: TraceProcessor) -> None:
    arrows = sorted(rows(tp, _LAUNCHING))
    assert arrows
    launches = trace.sql("""
        SELECT launch_id, kernel.id FROM kernel
        INNER JOIN launch ON kernel.launch_id = launch.id AND launch.ts <= kernel.ts
        ORDER BY ALL
    """)
    assert arrows == launches.fetchall()


@of_four_ranks
def test_a_slice_says_where_it_comes_from(trace: traceql.Run, tp: TraceProcessor) -> None:
    for where, table in (
        ("cat = 'kernel' AND role = 'attention'", "kernel"),
        ("cat = 'layer'", "layer"),
        ("cat = 'step'", "step"),
        ("cat = 'role'", "kernel"),
        ("cat = 'idle'", "gap"),
        ("cat = 'communication'", "collective"),
        ("cat = 'cuda_runtime'", "slice"),
    ):
        statement, ts = slices(tp, where, "sql", "ts", "role")[0][:2]
        assert statement.startswith(f"SELECT * FROM {table} WHERE ")
        found = trace.sql(statement).rows()
        assert found
        assert table == "collective" or found[0]["ts"] == ts or table == "step"


@of_runs([databases.RUN_DIRECTORY])
def test_roles_say_what_they_achieve(trace: traceql.Run, tp: TraceProcessor) -> None:
    """The roles whose kernels follow each other say what they had to do, and no others."""
    columns = ("floor_ns", "bound_by", "percent_of_peak", "achieved_gbps", "achieved_tflops")
    found = slices(tp, "cat = 'role' AND name = 'gate_up_proj'", "step_id", "layer", *columns)
    expected = trace.sql("""
        SELECT
            step_id, layer, CAST(round(floor_ns) AS BIGINT), bound,
            round(100 * floor_ns / cost.dur_ns, 1), round(cost.hbm_bytes / cost.dur_ns, 1),
            round(cost.flops / cost.dur_ns / 1e3, 2)
        FROM cost INNER JOIN internal.role_floor USING (step_id, layer, role)
        WHERE role = 'gate_up_proj' AND kind = 'data sheet'
    """)
    assert len(found) > 100
    assert found == sorted(expected.fetchall(), key=repr)
    assert 20 < max(row[4] for row in found) <= 105
    links = slices(tp, "cat = 'role' AND name LIKE '%_allreduce'", "bound_by", *columns[2:])
    assert {row for row in links if row[0]} == {("link", None, None, None)}


@pytest.mark.slow
def test_what_overlaps_is_kept_on_a_track_of_the_same_name(tmp_path: Path) -> None:
    events = [
        launch(ts=0, correlation=1),
        kernel("first", ts=10, dur=10, correlation=1),
        kernel("second", ts=15, dur=10),
        kernel("third", ts=25, dur=5),
        kernel("empty", ts=30, dur=0),
    ]
    with enriched(loaded(tmp_path, events), tmp_path) as tp:
        found = slices(tp, "track = 'stream 7'", "ts", "dur", "name", "depth")
        lanes = rows(tp, "SELECT name FROM track WHERE name = 'stream 7'")
    assert found == [
        (10000, 10000, "first", 0), (15000, 10000, "second", 0), (25000, 5000, "third", 0),
        (30000, 0, "empty", 0),
    ]  # fmt: skip
    assert len(lanes) == 2


@pytest.mark.slow
def test_a_finding_is_over_the_whole_run_and_where_it_shows_best(tmp_path: Path) -> None:
    database = loaded(tmp_path, [kernel(ts=0, dur=10), kernel(ts=90, dur=10)]).path
    with duckdb.connect(database) as con:
        con.execute("""
            CREATE OR REPLACE TABLE finding AS
            SELECT * FROM (VALUES
                (1, 'severe', 'late_peer', 'late rank', 'Rank 0 is late.', ['It is.'],
                    'comm.stragglers', MAP {'rank': '0', 'name': 'it''s $HOME'}, 'Pin it.',
                    0, 10_000, 80_000, 4),
                (2, 'notable', 'slow_hosts', 'slow hosts', 'Idle.', ['It is.'], 'idle.host',
                    MAP {}, 'Use graphs.', NULL, NULL, NULL, NULL)
            ) AS finding (
                rank_order, severity, cause, title, headline, evidence, query, parameters,
                remedy, rank, ts, dur, saving_ns
            ),
            (SELECT NULL AS saving_low_ns, NULL AS saving_high_ns, NULL AS gain_pct,
                NULL AS unknowns)
        """)
    with traceql.open(database) as trace, enriched(trace, tmp_path) as tp:
        found = slices(tp, "track = 'Findings'", "parent", "ts", "dur", "name", "see", "try")
        arrows = rows(tp, _ARROWS)
    late = "traceql run comm.stragglers run.duckdb --rank 0 --name 'it'\"'\"'s $HOME'", "Pin it."
    idle = "traceql run idle.host run.duckdb", "Use graphs."
    assert found == [
        ("all ranks", 0, 100_000, "Idle.", *idle),
        ("all ranks", 0, 100_000, "Rank 0 is late.", *late),
        ("rank 0 · GPU 0", 10_000, 80_000, "late rank", *late),
    ]
    assert arrows == [("Rank 0 is late.", "late rank")]


@pytest.mark.slow
def test_counters_follow_the_queue_and_the_pace(tmp_path: Path) -> None:
    events = [
        step(ts=0, dur=50, context=(1, 30)),
        launch(ts=1, correlation=1),
        launch(ts=2, correlation=2),
        kernel(ts=3, dur=40, correlation=1),
        kernel(ts=43, dur=10, correlation=2),
        step(ts=100, dur=50, generation=(2, 2)),
    ]
    samples = """
        SELECT track.name, counter.ts, counter.value
        FROM counter JOIN track ON counter.track_id = track.id
        JOIN track AS parent ON track.parent_id = parent.id
        WHERE parent.name = 'Counters' ORDER BY 1, 2
    """
    with enriched(loaded(tmp_path, events), tmp_path) as tp:
        found = rows(tp, samples)
    assert found == [
        ("Generated tokens per second", 0, 0.0),
        ("Generated tokens per second", 100_000, pytest.approx(2 / 50e-6)),
        ("Generated tokens per second", 150_000, 0.0),
        ("Launch queue", 1_000, 1.0),
        ("Launch queue", 2_000, 2.0),
        ("Launch queue", 3_000, 1.0),
        ("Launch queue", 43_000, 0.0),
        ("Prompt tokens per second", 0, pytest.approx(30 / 100e-6)),
        ("Prompt tokens per second", 100_000, 0.0),
        ("Prompt tokens per second", 150_000, 0.0),
    ]


@pytest.mark.slow
def test_an_export_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = loaded(tmp_path, [kernel(ts=0, dur=1)])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(TraceqlError, match="is a database"):
        export_perfetto(trace, trace.path)
    with pytest.raises(TraceqlError, match="No such file"):
        export_perfetto(trace, tmp_path / "nowhere" / "run.pftrace")

    def full_disk(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("traceql.present.pftrace.export.begin_packets", full_disk)
    with pytest.raises(TraceqlError, match="No space left on device"):
        export_perfetto(trace, tmp_path / "run.pftrace")
    assert sorted(tmp_path.iterdir()) == before
