"""Several devices of one process, and steps whose GPU time overlaps because the host runs ahead."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import databases
import pytest
from adding_up import Query, runs_ahead, steps_add_up
from command_line import called, output
from derived import Connection, answer, database, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import Event, host, kernel, launch, loaded, write

import traceql

REPORTS = databases.ROOT.parent / "shared" / "reports"
US = 1000


class Run(NamedTuple):
    """What a step runs on a GPU; times in us."""

    ts: float
    dur: float
    device: int = 0
    stream: int = 7
    is_copy: bool = False


def copy(ts: float, dur: float, device: int = 0, stream: int = 20) -> Run:
    return Run(ts, dur, device, stream, is_copy=True)


def program(*steps: Sequence[Run], host_us: float = 1) -> list[Event]:
    """The host launches the steps one after the other, each in `host_us`."""
    return list(_events(steps, host_us))


def _events(steps: Sequence[Sequence[Run]], host_us: float) -> Iterator[Event]:
    correlations = count(1)
    for number, runs in enumerate(steps):
        begin, name = number * host_us, f"ProfilerStep#{number}"
        yield host(name, ts=begin, dur=0.9 * host_us, cat="user_annotation")
        for place, run in enumerate(runs):
            correlation = next(correlations)
            yield launch(
                ts=begin + 0.8 * host_us * place / len(runs), dur=0.01, correlation=correlation
            )
            name, cat = (
                ("Memcpy PtoP (Device -> Device)", "gpu_memcpy")
                if run.is_copy
                else ("nvjet_sm90_gemm", "kernel")
            )
            yield kernel(
                name, ts=run.ts, dur=run.dur, device=run.device, stream=run.stream, cat=cat,
                correlation=correlation,
            )  # fmt: skip


def spans(con: Connection) -> dict[int, list[tuple[int, float, float]]]:
    """By device, the number, start and duration of each step on the GPU, us."""
    found: dict[int, list[tuple[int, float, float]]] = {}
    for device, number, ts, dur in rows(
        con,
        "SELECT device, number, gpu_ts, gpu_dur FROM step WHERE gpu_ts IS NOT NULL ORDER BY ALL",
    ):
        found.setdefault(device, []).append((number, ts / US, dur / US))
    return found


def parts(con: Connection) -> dict[tuple[int, int], dict[str, float]]:
    """By device and number, the parts of each step's time, us."""
    found: dict[tuple[int, int], dict[str, float]] = {}
    for device, number, part, ns in rows(
        con,
        """
        SELECT step.device, number, part, SUM(ns)
        FROM step_time INNER JOIN step USING (step_id)
        WHERE step_time.device = step.device
        GROUP BY ALL ORDER BY ALL
        """,
    ):
        found.setdefault((device, number), {})[part] = ns / US
    return found


# --- steps that overlap --------------------------------------------------------------------------

AHEAD = {
    "far ahead, as in the accumulation of gradients": (
        [
            [copy(3, 1), Run(10, 30)],
            [copy(4, 1), Run(40, 30)],
            [copy(5, 1), Run(70, 30)],
        ],
        [(0, 3, 37), (1, 40, 30), (2, 70, 30)],
        [
            {"computing": 30, "exposed_copy": 1, "idle": 4, "other_step": 2},
            {"computing": 30},
            {"computing": 30},
        ],
    ),
    "in the middle only": (
        [[Run(10, 10)], [Run(30, 20)], [copy(35, 2), Run(60, 10)], [Run(80, 10)]],
        [(0, 10, 10), (1, 30, 20), (2, 50, 20), (3, 80, 10)],
        [{"computing": 10}, {"computing": 20}, {"computing": 10, "idle": 10}, {"computing": 10}],
    ),
    "by copies only": (
        [[copy(10, 20)], [copy(20, 20, stream=21)]],
        [(0, 10, 20), (1, 30, 10)],
        [{"exposed_copy": 10, "other_step": 10}, {"exposed_copy": 10}],
    ),
    "a step within the step before": (
        [[Run(10, 100)], [Run(30, 10, stream=8)], [Run(120, 10)]],
        [(0, 10, 100), (1, 40, 0), (2, 120, 10)],
        [{"computing": 90, "other_step": 10}, None, {"computing": 10}],
    ),
    "a step that ends after the second one after it has begun": (
        [[Run(10, 10), copy(40, 10)], [Run(20, 10)], [Run(45, 15)]],
        [(0, 10, 40), (1, 30, 0), (2, 50, 10)],
        [
            {"computing": 10, "other_step": 15, "idle": 10, "exposed_copy": 5},
            None,
            {"computing": 10},
        ],
    ),
    "not at all": (
        [[Run(10, 10)], [copy(20, 1), Run(25, 5)], [Run(40, 10)]],
        [(0, 10, 10), (1, 20, 10), (2, 40, 10)],
        [{"computing": 10}, {"computing": 5, "exposed_copy": 1, "idle": 4}, {"computing": 10}],
    ),
}


@pytest.mark.parametrize(("steps", "expected", "divided"), AHEAD.values(), ids=AHEAD)
def test_a_step_takes_the_time_from_the_end_of_the_steps_before(
    steps: list[list[Run]],
    expected: list[tuple[int, float, float]],
    divided: list[dict[str, float] | None],
) -> None:
    con = database(*program(*steps))
    assert spans(con) == {0: expected}
    assert parts(con) == {(0, n): of for n, of in enumerate(divided) if of is not None}
    steps_add_up(partial(rows, con))
    ((*_, total_ns, _, _),) = answer(con, "steps.phases")
    assert total_ns == US * sum(dur for *_, dur in expected)
    windows = [row[4] for row in answer(con, "time.breakdown", by="step")]
    assert windows == [US * dur for *_, dur in expected if dur]


def test_idle_time_excludes_the_work_of_other_steps() -> None:
    """Of step 2, the copy runs while step 1 computes: it does not begin to be idle before 50."""
    con = database(*program(*AHEAD["in the middle only"][0]))
    gaps = "SELECT gap.ts // 1000, gap.dur // 1000, number FROM gap JOIN step USING (step_id)"
    assert rows(con, gaps) == [(20, 10, 1), (50, 10, 2), (70, 10, 3)]
    waterfall = "SELECT number, ns FROM waterfall JOIN step USING (step_id) WHERE bar = 'idle'"
    assert rows(con, waterfall) == [(2, 10_000)]
    launched = (
        "SELECT number, COUNT(*) FROM kernel JOIN step USING (step_id) GROUP BY ALL ORDER BY 1"
    )
    assert rows(con, launched) == [(0, 1), (1, 1), (2, 2), (3, 1)]


WORK = st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(0, 1), st.integers(7, 8))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(WORK, max_size=3), min_size=1, max_size=5))
def test_steps_of_a_device_never_overlap(steps: list[list[tuple[int, int, int, int]]]) -> None:
    con = database(*program(*([Run(*work) for work in step] for step in steps), host_us=0.1))
    steps_add_up(partial(rows, con))
    for found in spans(con).values():
        times = [(ts, ts + dur) for _, ts, dur in found if dur]
        assert not runs_ahead(times)


# Steps that are cut because their host runs ahead, and all. Where vLLM copies inputs while the
# sampled tokens of the step before are copied, it does not.
OVERLAPPING = {
    "qwen3-8b-tp1-graph": (0, 7),
    "qwen3-32b-tp4-graph-nccl": (0, 24),
    "qwen3-8b-pp2-graph": (11, 21),
    "qwen3-30b-a3b-tp4-ep-graph": (0, 24),
    "a100-graph-launches": (4, 5),
    "qwen3-0.6b-tp1-eager": (0, None),
}


@pytest.mark.parametrize("run", databases.cases(list(OVERLAPPING)))
def test_steps_of_a_real_run_add_up(run: str) -> None:
    trace = databases.trace(run)
    steps_add_up(of_run(trace))
    (found,) = trace.sql("""
        SELECT COUNT(*) FILTER (step.gpu_ts > first.ts) AS cut, COUNT(*) AS steps
        FROM step INNER JOIN (SELECT step_id, MIN(ts) AS ts FROM kernel GROUP BY step_id) AS first
        USING (step_id)
    """).rows()
    cut, steps = OVERLAPPING[run]
    assert found["cut"] == cut
    assert steps in (None, found["steps"])


def of_run(run: traceql.Run) -> Query:
    return lambda sql: [tuple(row.values()) for row in run.select(sql)]


# --- several devices of one rank -----------------------------------------------------------------


def breakdown(con: Connection) -> list[tuple[Any, ...]]:
    """Rank, device, window, computing, copies and idle time, us."""
    return [
        (row[0], row[1], row[4] / US, row[5] / US, row[10] / US, row[11] / US)
        for row in answer(con, "time.breakdown")
    ]


def test_devices_of_a_model_that_is_spread_have_their_own_windows() -> None:
    """Four GPUs, one after the other, each of which sends its result to the next one."""
    con = database(
        *program(
            [
                work
                for device in range(4)
                for at in [100 * device + 10]
                for work in (
                    Run(at, 40, device),
                    Run(at + 50, 40, device),
                    *([copy(at + 90, 5, device, stream=7)] if device < 3 else []),
                )
            ]
        )
    )
    assert breakdown(con) == [
        (0, 0, 95, 80, 5, 10),
        (0, 1, 95, 80, 5, 10),
        (0, 2, 95, 80, 5, 10),
        (0, 3, 90, 80, 0, 10),
    ]
    assert rows(con, "SELECT ns FROM recorded_span") == [(390_000,)]
    assert rows(con, "SELECT DISTINCT cause, dur FROM gap") == [("launch", 10_000)]
    assert spans(con) == {0: [(0, 10, 95)], 1: [(0, 110, 95)], 2: [(0, 210, 95)], 3: [(0, 310, 90)]}
    steps_add_up(partial(rows, con))


PIPELINE = [
    [Run(10, 20, 0), copy(30, 2, 0), Run(32, 20, 1)],
    [Run(32, 20, 0), copy(52, 2, 0), Run(54, 20, 1)],
]


def test_a_step_has_a_row_for_each_device_of_a_pipeline() -> None:
    con = database(*program(*PIPELINE))
    assert rows(con, "SELECT step_id, rank, device, number, gpu_ts, gpu_dur FROM step") == [
        (0, 0, 0, 0, 10_000, 22_000),
        (1, 0, 1, 0, 32_000, 20_000),
        (2, 0, 0, 1, 32_000, 22_000),
        (3, 0, 1, 1, 54_000, 20_000),
    ]
    placed = "SELECT step_id, COUNT(*) FROM {} GROUP BY ALL ORDER BY ALL"
    assert rows(con, placed.format("kernel")) == [(0, 2), (1, 1), (2, 2), (3, 1)]
    assert rows(con, placed.format("launch")) == [(0, 2), (1, 1), (2, 2), (3, 1)]
    assert breakdown(con) == [(0, 0, 44, 40, 4, 0), (0, 1, 42, 40, 0, 2)]
    steps_add_up(partial(rows, con))


def test_two_devices_whose_host_runs_ahead() -> None:
    con = database(
        *program(
            [Run(10, 10, 2), Run(22, 10, 3)],
            [copy(15, 1, 2), Run(25, 10, 2), Run(36, 10, 3)],
            [copy(34, 4, 3)],
            host_us=3,
        )
    )
    assert spans(con) == {2: [(0, 10, 10), (1, 20, 15)], 3: [(0, 22, 10), (1, 36, 10), (2, 38, 0)]}
    assert parts(con)[2, 1] == {"computing": 10, "idle": 5}
    # The last step has no kernel on the first device, but is not lost.
    iterations = "SELECT number, LIST(device ORDER BY device) FROM step GROUP BY ALL ORDER BY ALL"
    assert rows(con, iterations) == [(0, [2, 3]), (1, [2, 3]), (2, [2, 3])]
    steps_add_up(partial(rows, con))


def test_a_launch_without_kernel_is_in_the_step_of_the_first_device() -> None:
    con = database(
        *program(*PIPELINE), launch(ts=1.9, correlation=90, name="cudaDeviceSynchronize")
    )
    assert rows(con, "SELECT step_id FROM launch WHERE correlation = 90") == [(2,)]


def test_a_layer_on_two_devices_has_two_rows(tmp_path: Path) -> None:
    events = program([Run(10, 20, 0), Run(30, 10, 0), Run(32, 20, 1)], host_us=10)
    around = host("layers.5", ts=0, dur=8.5, cat="user_annotation")
    found = loaded(tmp_path, [*events, around]).sql(
        "SELECT layer, device, step_id, ts, dur, busy_ns FROM layer"
    )
    assert [tuple(row.values()) for row in found] == [
        (5, 0, 0, 10_000, 30_000, 30_000), (5, 1, 1, 32_000, 20_000, 20_000),
    ]  # fmt: skip


def test_one_device_has_no_number_in_answers() -> None:
    con = database(*program([Run(10, 10, 5)], [Run(30, 10, 5)]))
    assert [row[:2] for row in answer(con, "time.breakdown")] == [(0, None)]
    assert rows(con, "SELECT DISTINCT device FROM step") == [(5,)]


@pytest.mark.parametrize("devices", [1, 2])
def test_kernels_alone_have_no_step(devices: int) -> None:
    """Without launches and annotations, the only step has no time on the GPU."""
    con = database(*(kernel(ts=20 * n, dur=10, device=n % devices) for n in range(30)))
    assert spans(con) == {}
    assert rows(con, "SELECT device, gpu_ts FROM step") == [(0, None)]
    assert rows(con, "SELECT COUNT(step_id) FROM kernel") == [(0,)]
    windows = "SELECT device, MIN(ts), MAX(ts + dur) FROM device_state GROUP BY ALL ORDER BY ALL"
    last = {device: max(n for n in range(30) if n % devices == device) for device in range(devices)}
    assert rows(con, windows) == [
        (device, 20_000 * device, 20_000 * n + 10_000) for device, n in last.items()
    ]
    steps_add_up(partial(rows, con))


NAME = "NVIDIA H100 80GB HBM3"


def two_devices(path: Path) -> traceql.Run:
    described = [{"id": number, "name": NAME} for number in (0, 1)]
    write(path / "trace.json", *program(*PIPELINE), deviceProperties=described)
    return traceql.open(traceql.load(path / "trace.json", path / "run.duckdb").database)


@pytest.mark.slow
def test_everything_that_reads_steps_works_with_two_devices(tmp_path: Path) -> None:
    run = two_devices(tmp_path)
    said = output("info", run.path)
    assert f"2 \N{MULTIPLICATION SIGN} {NAME}" in said
    assert "2 steps" in said
    headlines = {row["headline"]: row["value"] for row in run.run("overview.headlines")}
    assert headlines["recorded"] == 64 * US
    run.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "device 1" in page
    for command in (
        ("export", "perfetto", run.path, "-o", tmp_path / "run.pftrace"),
        ("report", run.path, "--steps", "0", "-o", tmp_path / "part.html"),
        ("diff", run.path, run.path),
        ("lake", "add", run.path, "--lake", tmp_path / "lake"),
    ):
        assert called(*command).returncode == 0, command


# --- files of the reports ------------------------------------------------------------------------


def report(name: str, folder: Path) -> traceql.Run:
    path = REPORTS / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return traceql.open(traceql.load(path, folder / "run.duckdb").database)


def test_two_gpus_of_one_process(tmp_path: Path) -> None:
    run = report("two-gpus-one-process/trace.json", tmp_path)
    headlines = {row["headline"]: row["value"] for row in run.run("overview.headlines")}
    assert headlines["recorded"] == 595 * US
    found = run.run("time.breakdown").rows()
    assert [(row["device"], row["window_ns"], row["computing_ns"]) for row in found] == [
        (0, 295 * US, 200 * US), (1, 295 * US, 200 * US),
    ]  # fmt: skip
    assert {row["cause"] for row in run.sql("FROM gap")} == {"launch"}
    assert (run.run("overview.recording").rows()[0]["value"]) == f"2 \N{MULTIPLICATION SIGN} {NAME}"
    assert run.sql("SELECT COUNT(*) AS n FROM step WHERE number = 0").rows() == [{"n": 2}]


@pytest.mark.parametrize(
    ("file", "ends_us", "recorded_ns", "idle_ns"),
    [
        ("trace.json", None, 1_342 * US, 254 * US),
        ("hta-a100-rank0.json.gz", [379.5, 595.0, 811.6, 1027.8, 1240.3], 1_231_461_000, None),
    ],
)
def test_steps_of_a_host_that_runs_ahead(
    tmp_path: Path, file: str, ends_us: list[float] | None, recorded_ns: int, idle_ns: int | None
) -> None:
    run = report(f"host-runs-ahead/{file}", tmp_path)
    steps = run.sql("FROM step ORDER BY number").rows()
    (phase,) = run.run("steps.phases").rows()
    total_ns = sum(row["gpu_dur"] for row in steps)
    assert phase["total_ns"] == total_ns <= recorded_ns
    (whole,) = run.run("time.breakdown").rows()
    by_step = run.run("time.breakdown", by="step").rows()
    assert whole["window_ns"] == recorded_ns
    assert sum(row["window_ns"] for row in by_step) == total_ns
    assert sum(row["idle_ns"] for row in by_step) <= whole["idle_ns"]
    if ends_us is None:  # 200 us, but the first one, which has nothing to wait for
        assert [row["gpu_dur"] for row in steps] == [342 * US, *[200 * US] * 5]
        assert whole["idle_ns"] == idle_ns
    else:
        ends = [(row["gpu_ts"] + row["gpu_dur"]) / 1e6 for row in steps]
        assert [round(end, 1) for end in ends] == ends_us
        assert round(phase["median_ns"] / 1e6) == 216
        assert round(whole["idle_ns"] / 1e6) == 793
    steps_add_up(of_run(run))
