"""Each derived table, from a few events whose rows are worked out by hand."""

from collections.abc import Sequence

import pytest
from derived import answer, database, rows
from traces import PID, Event, host, kernel, launch, step

from traceql.analysis import parts_of_time

ATTENTION = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128> >"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

# --- step ------------------------------------------------------------------------------------

STEP = """
    SELECT name, ts, dur, phase, context_requests, context_tokens, generation_requests,
        generation_tokens, source
    FROM step ORDER BY step_id
"""


def test_annotation_gives_phase_and_tokens() -> None:
    annotations = [
        ("execute_context_0(0)_generation_0(0)", "idle", (0, 0, 0, 0)),
        ("execute_context_1(888_788544)_generation_0(0)", "prefill", (1, 888, 0, 0)),
        (
            "execute_5_context_1(sq3sk9sqsq9sqsk27)_generation_2(sq2sk80sqsq2sqsk80)",
            "mixed",
            (1, 3, 2, 2),
        ),
    ]
    events = [
        host(name, ts=3 * n, dur=2, cat="user_annotation")
        for n, (name, _, _) in enumerate(annotations)
    ]
    # Neither steps of the profiler nor annotations of the GPU count beside those of the engine.
    profiler = host("ProfilerStep#7", ts=0, dur=9, cat="user_annotation")
    on_gpu = kernel(annotations[0][0], ts=2, dur=2, cat="gpu_user_annotation")
    assert rows(database(*events, profiler, on_gpu), STEP) == [
        (name, 3000 * n, 2000, phase, *counts, "execute_context")
        for n, (name, phase, counts) in enumerate(annotations)
    ]


def test_steps_of_the_profiler_have_no_phase() -> None:
    con = database(
        host("ProfilerStep#7", ts=1, dur=2, cat="user_annotation"),
        host("Optimizer.step#SGD", ts=4, dur=1, cat="user_annotation"),
    )
    assert rows(con, STEP) == [("ProfilerStep#7", 1000, 2000, *(None,) * 5, "ProfilerStep")]


def test_trace_without_annotations_is_one_step() -> None:
    con = database(launch(ts=2, correlation=1), kernel(ts=5, dur=4, correlation=1))
    assert rows(con, STEP) == [(None, 2000, 7000, *(None,) * 5, "trace")]
    assert rows(con, "SELECT step_id FROM kernel") == [(0,)]


def test_step_on_the_gpu_lasts_from_its_first_kernel_to_its_last() -> None:
    con = database(
        step(ts=0, dur=3, context=(1, 8)),
        launch(ts=1, correlation=1),
        launch(ts=2, correlation=2),
        kernel(ts=4, dur=9, correlation=1),
        kernel(ts=6, dur=2, correlation=2, stream=8),
        step(ts=20, dur=1),
    )
    found = rows(con, "SELECT ts, gpu_ts, gpu_dur, graph_mode FROM step ORDER BY ts")
    assert found == [(0, 4000, 9000, "none"), (20_000, None, None, None)]


@pytest.mark.parametrize(
    ("attention", "mode"), [(1, "full"), (2, "piecewise")], ids=["inside", "outside"]
)
def test_graph_mode_is_full_where_attention_ran_inside(attention: int, mode: str) -> None:
    con = database(
        step(ts=0, dur=5, generation=(1, 1)),
        launch(ts=1, correlation=1, name="cudaGraphLaunch"),
        launch(ts=3, correlation=2),
        kernel(ts=6, dur=1, correlation=1),
        kernel(ATTENTION, ts=7, dur=1, correlation=attention),
    )
    assert rows(con, "SELECT graph_mode FROM step") == [(mode,)]


# --- launch and kernel -----------------------------------------------------------------------


def test_kernels_of_all_kinds_find_their_launch_and_step() -> None:
    con = database(
        step(ts=0, dur=9, generation=(1, 1)),
        launch(ts=1, correlation=1, name="cudaGraphLaunch"),
        launch(ts=3, correlation=2, name="cudaMemcpyAsync"),
        kernel(ts=5, dur=2, correlation=1, grid=[8, 2, 1], block=[128, 1, 1]),
        kernel(ATTENTION, ts=6, dur=2, correlation=1, stream=20),
        kernel(
            "Memcpy HtoD (Pinned -> Device)", ts=9, dur=1, correlation=2, cat="gpu_memcpy",
            bytes=4096,
        ),
        kernel("Memset (Device)", ts=10, dur=1, correlation=9, cat="gpu_memset", bytes=16),
        kernel("my_kernel", ts=11, dur=1, device=1),
    )  # fmt: skip
    found = rows(
        con,
        """
        SELECT
            id, device, stream, ts, dur, kind, category, step_id, launch_id, in_graph, bytes,
            grid, block
        FROM kernel
        """,
    )
    no_shape = (None, None)
    assert found == [
        (3, 0, 7, 5000, 2000, "kernel", "gemm", 0, 1, True, None, [8, 2, 1], [128, 1, 1]),
        (4, 0, 20, 6000, 2000, "kernel", "attention", 0, 1, True, None, *no_shape),
        (5, 0, 7, 9000, 1000, "memcpy", "memcpy", 0, 2, False, 4096, *no_shape),
        (6, 0, 7, 10_000, 1000, "memset", "memset", None, None, False, 16, *no_shape),
        (7, 1, 7, 11_000, 1000, "kernel", "other", None, None, False, None, *no_shape),
    ]


def test_outer_of_two_calls_with_one_correlation_launches() -> None:
    con = database(
        launch(ts=1, dur=4, correlation=1),
        host("cuLaunchKernel", ts=2, dur=1, cat="cuda_driver", correlation=1),
        kernel(ts=6, dur=1, correlation=1),
        launch(ts=1, correlation=0, tid=7),
        kernel(ts=7, dur=1, correlation=0),  # 0 joins nothing
    )
    assert rows(con, "SELECT id, launch_id, in_graph FROM kernel") == [
        (2, 0, False), (4, None, False)
    ]  # fmt: skip


def test_kernel_without_device_and_stream_has_those_of_its_track() -> None:
    event = kernel(ts=0, dur=1, device=3, stream=9)
    con = database(event | {"args": {}})
    assert rows(con, "SELECT device, stream FROM kernel") == [(3, 9)]


# --- device_state and gap ----------------------------------------------------------------------


def test_each_device_of_a_rank_has_its_own_window() -> None:
    con = database(
        kernel(ts=5, dur=15), kernel(ts=0, dur=10, device=1), kernel(ts=12, dur=1, device=1)
    )
    assert rows(con, "SELECT device, ts, dur, compute FROM device_state") == [
        (0, 5000, 15_000, True),
        (1, 0, 10_000, True),
        (1, 10_000, 2000, False),
        (1, 12_000, 1000, True),
    ]
    gaps = "SELECT device, ts, dur, cause, previous_kernel_id, next_kernel_id FROM gap"
    assert rows(con, gaps) == [(1, 10_000, 2000, "unknown", 1, 2)]


def test_kernel_of_no_duration_occupies_nothing() -> None:
    con = database(kernel(ts=0, dur=1), kernel(ts=3, dur=0), kernel(ts=6, dur=1))
    assert rows(con, "SELECT ts, dur FROM gap") == [(1000, 2000), (3000, 3000)]


FIRST = (launch(ts=0, correlation=1), kernel(ts=10, dur=5, correlation=1))  # slices 0 and 1
GAP = "SELECT ts, dur, cause, previous_kernel_id, next_kernel_id FROM gap"


def blocking(
    *, ts: float, dur: float, name: str = "cudaStreamSynchronize", tid: int = PID
) -> Event:
    return launch(ts=ts, dur=dur, name=name, correlation=90, tid=tid)


LAUNCHED_LATE = (kernel(ts=30, dur=1, correlation=2), launch(ts=20, correlation=2))
LAUNCHED_BEFORE = (kernel(ts=30, dur=1, correlation=2), launch(ts=5, correlation=2))


def waits_for_an_event(*, stream: int) -> tuple[Event, ...]:
    """The kernel after the gap, on this stream, is launched after a wait for another stream."""
    return (
        kernel(ts=30, dur=1, correlation=2, stream=stream),
        launch(ts=4, correlation=80, name="cudaStreamWaitEvent"),
        launch(ts=6, correlation=2),
    )


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        pytest.param(LAUNCHED_LATE, "host", id="launched late"),
        # 3 of the 5 us from the gap's start to the launch.
        *(
            pytest.param((*LAUNCHED_LATE, blocking(ts=12, dur=6, name=name)), "sync", id=name)
            for name in ("cudaStreamSynchronize", "hipEventSynchronize", "cudaMemcpy")
        ),
        pytest.param((*LAUNCHED_LATE, blocking(ts=12, dur=5)), "host", id="blocked less than half"),
        pytest.param(
            (*LAUNCHED_LATE, blocking(ts=12, dur=6, tid=PID + 1)), "host", id="another thread"
        ),
        # 2 of 5 us: a call inside another counts once.
        pytest.param(
            (
                *LAUNCHED_LATE,
                blocking(ts=12, dur=2),
                blocking(ts=12, dur=2, name="cuCtxSynchronize"),
            ),
            "host",
            id="a call in a call",
        ),
        pytest.param(
            (*LAUNCHED_BEFORE, blocking(ts=7, dur=50)), "launch", id="blocked after the launch"
        ),
        pytest.param(
            (kernel(ts=30, dur=1, correlation=2), launch(ts=15, correlation=2)),
            "launch",
            id="launched and not started",
        ),
        pytest.param(waits_for_an_event(stream=8), "dependency", id="waits for another stream"),
        pytest.param(waits_for_an_event(stream=7), "launch", id="waits for its own stream"),
        pytest.param((kernel(ts=30, dur=1), blocking(ts=15, dur=20)), "unknown", id="no launch"),
    ],
)
def test_cause_of_a_gap(events: Sequence[Event], cause: str) -> None:
    """It is between the first kernel, which ends at 15, and the one of `events` (slice 2)."""
    assert rows(database(*FIRST, *events), GAP) == [(15_000, 15_000, cause, 1, 2)]


def test_wait_before_an_earlier_launch_of_the_stream_is_no_dependency() -> None:
    con = database(
        *FIRST,
        kernel(ts=30, dur=1, correlation=3, stream=8),
        kernel(ts=8, dur=1, correlation=2, stream=8),
        launch(ts=4, correlation=80, name="cudaStreamWaitEvent"),
        launch(ts=5, correlation=2),
        launch(ts=6, correlation=3),
    )
    assert rows(con, GAP) == [
        (9000, 1000, "launch", 3, 1),
        (15_000, 15_000, "launch", 1, 2),
    ]


@pytest.mark.parametrize("rows_of_part", [250_000, 1])
def test_a_long_kernel_does_not_hide_the_later_one_of_its_stream(
    monkeypatch: pytest.MonkeyPatch, rows_of_part: int
) -> None:
    """The wait came before the launch of the second kernel, however time is divided."""
    monkeypatch.setattr(parts_of_time, "_ROWS", rows_of_part)
    monkeypatch.setattr(parts_of_time, "_SAMPLED", 1)
    con = database(
        kernel(ts=200, dur=100, correlation=1, stream=7),
        kernel(ts=210, dur=1, correlation=2, stream=7),
        kernel(ts=250, dur=10, stream=8),
        kernel(ts=290, dur=20, stream=8),
        kernel(ts=320, dur=1, correlation=3, stream=7),
        launch(ts=1, correlation=1),
        launch(ts=5, correlation=80, name="cudaStreamWaitEvent"),
        launch(ts=10, correlation=2),
        launch(ts=20, correlation=3),
    )
    assert rows(con, GAP) == [(310_000, 10_000, "launch", 3, 4)]


# --- ledger ----------------------------------------------------------------------------------


def test_ledger_compares_the_database_with_the_file() -> None:
    con = database(kernel("my_kernel", ts=0, dur=2), kernel(ts=5, dur=98))
    con.execute("""
        INSERT INTO file_count VALUES
            (0, 'slice', 'kernel', 3, 100000), (0, 'slice', 'cpu_op', 1, 7),
            (0, 'B', '', 4, 0), (0, 'i', '', 5, 0)
    """)
    found = rows(con, "SELECT check_name, value, total, ok FROM ledger")
    assert found == [
        ("events cpu_op", 0, 1, False),
        ("events kernel", 2, 3, False),
        ("duration cpu_op", 0, 7, False),
        ("duration kernel", 100_000, 100_000, True),
        ("instants", 0, 5, False),
        ("phase B", 0, 4, False),
        ("kernels with a launch", 0, 2, None),
        ("kernels in a step", 0, 2, None),
        ("time classified other", 2000, 100_000, False),
        ("idle in gaps", 3000, 3000, True),
    ]


def test_a_kernel_without_a_name_is_busy_time() -> None:
    con = database(kernel(None, ts=0, dur=10), kernel(ts=10, dur=5))  # type: ignore[arg-type]
    assert rows(con, "SELECT category FROM kernel WHERE id = 0") == [("other",)]
    assert rows(con, "SELECT SUM(dur) FROM device_state WHERE compute") == [(15_000,)]


def test_a_graph_launch_that_finds_its_stream_empty_is_counted() -> None:
    con = database(
        launch(ts=0, correlation=1, name="cudaGraphLaunch"),
        *(kernel(ts=5 + n, dur=1, correlation=1) for n in range(3)),
    )
    ((*_, idle, p50, p99),) = answer(con, "launch.latency")
    assert (idle, p50, p99) == (1, 5_000, 5_000)
