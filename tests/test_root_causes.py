"""Root causes of lost time, calls of roles, names of host events, latencies of both passes."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import called, refusal
from derived import answer, database, rows
from forward_passes import forward, whole
from recorded_runs import answer as finished
from recorded_runs import run_directory
from traces import Event, all_reduce, host, kernel, launch, loaded, step

import traceql
from capture.metrics import pass_metrics
from capture.workload import Pass

pytestmark = pytest.mark.slow

BOTH = (0, 1)

# --- lost time -----------------------------------------------------------------------------------


def late_host(rank: int) -> list[Event]:
    """A prefill step with six all-reduces that both ranks begin together, and a decode step; us:

             prefill     gap       host launches   computes   all-reduce
    rank 0   0..120      120..145  at 141          ..155      ..200, of which 35 are waiting
    rank 1   0..120      120..180  at 172          ..190      ..200
    """
    decode = 140 if rank == 0 else 170
    events = [step(ts=0, dur=5, context=(1, 8)), step(ts=decode, dur=5, generation=(1, 1))]
    for n in range(6):
        events += [
            launch(ts=1, correlation=2 * n + 1),
            kernel(ts=20 * n, dur=10, correlation=2 * n + 1),
            launch(ts=2, correlation=2 * n + 2),
            all_reduce(ts=20 * n + 10, dur=10, ranks=BOTH, stream=20, correlation=2 * n + 2),
        ]
    begins = 145 if rank == 0 else 180
    return [
        *events,
        host("prepare", ts=decode + 1, dur=0.5),
        launch(ts=decode + 2, correlation=90),
        kernel(ts=begins, dur=10, correlation=90),
        launch(ts=decode + 3, correlation=91),
        all_reduce(
            ts=begins + 10, dur=190 - begins, ranks=BOTH, stream=20, correlation=91
        ),
    ]  # fmt: skip


def test_idle_time_of_a_rank_and_the_waiting_for_it_have_one_root(tmp_path: Path) -> None:
    """The host of rank 1 costs 60 us of its own and 35 of the other rank's: 95 of 400."""
    with loaded(tmp_path, *(late_host(rank) for rank in BOTH)) as trace:
        lost = [
            (
                row["rank"], row["phase"], row["graph_mode"], row["cause"],
                row["lost_ns"], row["idle_ns"], row["wait_ns"], row["share_pct"], row["steps"],
            )
            for row in trace.run("time.lost")
        ]  # fmt: skip
        assert lost == [
            (1, "decode", "none", "host", 95_000, 60_000, 35_000, 23.75, 1),
            (0, "decode", "none", "host", 25_000, 25_000, 0, 6.25, 1),
        ]
        assert [row["rank"] for row in trace.run("time.lost", rank=1)] == [1]
        assert trace.run("time.lost", phase="prefill").rows() == []
        parts = [
            (row["rank"], row["phase"], row["window_ns"], row["exposed_wait_ns"], row["idle_ns"])
            for row in trace.run("time.breakdown", by="phase")
        ]
        assert parts == [
            (0, "prefill", 120_000, 0, 0),
            (0, "decode", 80_000, 35_000, 25_000),
            (1, "prefill", 120_000, 0, 0),
            (1, "decode", 80_000, 0, 60_000),
        ]


# --- calls ---------------------------------------------------------------------------------------


def calls(con: Any) -> dict[str | None, int]:
    return {row[1]: row[7] for row in answer(con, "layers.roles")}


def test_a_product_in_two_kernels_is_one_call() -> None:
    """As a split-K product with its reduction."""
    events = forward(whole(), ts=0)
    con = database(*events)
    first = calls(con)
    begun = rows(con, "SELECT ts FROM kernel WHERE role = 'down_proj'")
    assert len(begun) == first["down_proj"] == 4
    for (ts,) in begun:
        (event,) = (e for e in events if e["cat"] == "kernel" and 1000 * e["ts"] == ts)
        half = event["dur"] / 2
        second = event | {"ts": event["ts"] + half, "dur": half, "args": dict(event["args"])}
        event["dur"] = half
        events.append(second | {"name": "void cublasLt::splitKreduce_kernel<32, 16, int, float>"})
    again = database(*events)
    (kernels,) = rows(again, "SELECT COUNT(*) FROM kernel WHERE role = 'down_proj'")[0]
    assert kernels == 8
    assert calls(again) == first


# --- what the host did ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("execute_context_1(60)_generation_7(7)", "execute_model"),
        ("execute_5_context_1(sq3sk9sqsq9sqsk27)_generation_0(sq0sk0sqsq0sqsk0)", "execute_model"),
        ("## Call CompiledFxGraph fqwmh3 ##", "CompiledFxGraph"),
        ("ProfilerStep#17", "ProfilerStep"),
        ("execute_contexts", "execute_contexts"),
    ],
)
def test_host_events_that_differ_in_a_number_have_one_name(name: str, group: str) -> None:
    con = database()
    con.execute("SELECT 1 AS host_name")  # makes the macro
    assert con.execute("SELECT host_name($name)", {"name": name}).fetchall() == [(group,)]


# --- requests and filters ------------------------------------------------------------------------


def test_latencies_of_both_passes_are_of_the_same_requests(tmp_path: Path) -> None:
    """Of a and b, 20 and 30 ms with the profiler, 10 and 50 without it; c, 90 ms, ran once."""
    folder = run_directory(tmp_path / "run")
    with_profiler = [finished("a", 1000, 1010, 1020), finished("b", 1000, 1030)]
    without = [
        finished("a", 2000, 2005, 2010),
        finished("b", 2000, 2050),
        finished("c", 2000, 2090),
    ]
    second = 1_000_000_000
    passes = {
        "profiled": pass_metrics(Pass(with_profiler, second, second + 25_000_000), None),
        "unprofiled": pass_metrics(Pass(without, 2 * second, 3 * second), None),
    }
    document = {"schema_version": 1, "passes": passes}
    (folder / "metrics.json").write_text(json.dumps(document))
    with traceql.open(traceql.load(folder, tmp_path / "run.duckdb").database) as trace:
        for requests, expected in (
            ("common", {"profiled": (2, 25_000_000), "unprofiled": (2, 30_000_000)}),
            ("all", {"profiled": (2, 25_000_000), "unprofiled": (3, 50_000_000)}),
        ):
            assert expected == {
                row["pass"]: (row["count"], row["mean_ns"])
                for row in trace.run("serving.latency", requests=requests)
                if row["latency"] == "e2e"
            }


def test_an_invalid_regular_expression_is_refused_in_one_line(tmp_path: Path) -> None:
    loaded(tmp_path, [kernel(ts=0, dur=1)]).close()
    database = tmp_path / "run.duckdb"
    message = refusal("run", "kernels.top", database, "--name", "([")
    start = "traceql: kernels.top: name is '([', which is not a regular expression: "
    assert message.startswith(start)
    assert len(message) > len(start)
    shown = called("run", "kernels.top", database, "--name", "NVJET.*gemm$")
    assert "nvjet_sm90_gemm" in shown.stdout.decode()
