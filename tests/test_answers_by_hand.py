"""Whole answers of canned queries on small traces, with every number worked out by hand."""

from pathlib import Path
from typing import Any

import pytest
from derived import answer, database
from forward_passes import forward, whole
from traces import ALL_REDUCE, Event, all_reduce, host, kernel, launch, loaded, step

import traceql

Row = tuple[Any, ...]


def rows(trace: traceql.Trace, name: str, **parameters: Any) -> list[Row]:
    return [tuple(row.values()) for row in trace.run(name, **parameters)]


# --- comm.exposed --------------------------------------------------------------------------------


def tensor_parallel(rank: int) -> list[Event]:
    """A forward pass of four layers, each with two all-reduces of 4 us, which begin at

    layer               0    1    2    3
    attn_allreduce     60  125  190  255
    mlp_allreduce      85  150  215  280

    us. Kernels of another stream hide 2 us of the first on rank 0, and on both ranks all of the
    second of layer 1. In layer 2 rank 1 joins the first 1 us late.
    """
    events = forward(whole(), ts=0)
    (late,) = (event for event in events if event["cat"] == "kernel" and event["ts"] == 190)
    if rank == 0:
        events.append(kernel("elementwise_kernel", ts=61, dur=2, stream=8))
    else:
        late["ts"], late["dur"] = 191, 3
    return [*events, kernel("elementwise_kernel", ts=148, dur=7, stream=8)]


@pytest.mark.slow
def test_exposed_communication_by_role_and_by_layer(tmp_path: Path) -> None:
    attention, mlp = "attn_allreduce", "mlp_allreduce"
    with loaded(tmp_path, *(tensor_parallel(rank) for rank in (0, 1))) as trace:
        # Calls; dur, exposed, exposed transfer, exposed wait, unmatched and hidden in ns; exposed
        # in percent.
        share = pytest.approx(100 * 29 / 31)
        assert rows(trace, "comm.exposed") == [
            (None, None, attention, 8, 31_000, 29_000, 28_000, 1_000, None, 2_000, share),
            (None, None, mlp, 8, 32_000, 24_000, 24_000, 0, None, 8_000, 75.0),
        ]
        assert rows(trace, "comm.exposed", rank=1) == [
            (None, None, attention, 4, 15_000, 15_000, 15_000, 0, None, 0, 100.0),
            (None, None, mlp, 4, 16_000, 12_000, 12_000, 0, None, 4_000, 75.0),
        ]
        assert rows(trace, "comm.exposed", by="layer") == [
            (None, 0, mlp, 2, 8_000, 8_000, 8_000, 0, None, 0, 100.0),
            (None, 1, attention, 2, 8_000, 8_000, 8_000, 0, None, 0, 100.0),
            (None, 2, mlp, 2, 8_000, 8_000, 8_000, 0, None, 0, 100.0),
            (None, 3, attention, 2, 8_000, 8_000, 8_000, 0, None, 0, 100.0),
            (None, 3, mlp, 2, 8_000, 8_000, 8_000, 0, None, 0, 100.0),
            (None, 2, attention, 2, 7_000, 7_000, 6_000, 1_000, None, 0, 100.0),
            (None, 0, attention, 2, 8_000, 6_000, 6_000, 0, None, 2_000, 75.0),
            (None, 1, mlp, 2, 8_000, 0, 0, 0, None, 8_000, 0.0),
        ]


def test_operations_of_two_streams_at_once_are_both_exposed() -> None:
    """From 0 to 10 and from 5 to 15 us; their device computes from 8 to 12, another one always."""
    con = database(
        kernel(ALL_REDUCE, ts=0, dur=10, stream=20),
        kernel(ALL_REDUCE, ts=5, dur=10, stream=21),
        kernel(ts=8, dur=4),
        kernel(ts=0, dur=15, device=1),
    )
    # 2 and 4 of 10 us are hidden. No other rank is there to wait for.
    assert answer(con, "comm.exposed") == [
        (None, None, None, 2, 20_000, 14_000, None, None, 14_000, 6_000, 70.0)
    ]


# --- idle.host -----------------------------------------------------------------------------------

# These traces have no Python frames.
NOTHING = "(no event recorded; with Python stacks, the trace would show more)"
# Three gaps, 100 us together: from 10 to 60 and from 70 to 110, which end with a kernel that was
# launched late, and from 120 to 130, which ends with one that was launched before.
THREE_GAPS = (
    launch(ts=0, correlation=1),
    kernel(ts=2, dur=8, correlation=1),
    host("prepare", ts=5, dur=45),
    host("aten::sort", ts=15, dur=20),
    host("of another thread", ts=10, dur=120, tid=7),
    launch(ts=55, dur=3, correlation=2),
    kernel(ts=60, dur=10, correlation=2),
    host("cudaStreamSynchronize", ts=62, dur=38, cat="cuda_runtime"),
    launch(ts=104, dur=2, correlation=3),
    launch(ts=107, dur=1, correlation=4),
    kernel(ts=110, dur=10, correlation=3),
    kernel(ts=130, dur=10, correlation=4),
)
# One gap, from 10 to 20.
ONE_GAP = (
    launch(ts=0, correlation=1),
    kernel(ts=2, dur=8, correlation=1),
    launch(ts=15, dur=1, correlation=2),
    kernel(ts=20, dur=1, correlation=2),
)


@pytest.mark.slow
def test_time_of_the_host_while_the_gpu_waited_for_it(tmp_path: Path) -> None:
    of_rank_0 = [
        # The first gap: 10 to 15 and 35 to 50 in prepare alone, 15 to 35 in the sort, 55 to 58 in
        # the launch, and 50 to 55 and 58 to 60 in nothing. The second: 70 to 100 in the
        # synchronizing call, 104 to 106 and 107 to 108 in launches, and 4 + 1 + 2 in nothing.
        (0, None, "sync", 30_000, 30.0, "cudaStreamSynchronize", "cuda_runtime"),
        (0, None, "host", 20_000, 20.0, "aten::sort", "cpu_op"),
        (0, None, "host", 20_000, 20.0, "prepare", "cpu_op"),
        (0, None, "host", 7_000, 7.0, NOTHING, None),
        (0, None, "sync", 7_000, 7.0, NOTHING, None),
        (0, None, "host", 3_000, 3.0, "cudaLaunchKernel", "cuda_runtime"),
        (0, None, "sync", 3_000, 3.0, "cudaLaunchKernel", "cuda_runtime"),
    ]
    of_rank_1 = [
        (1, None, "host", 9_000, 90.0, NOTHING, None),
        (1, None, "host", 1_000, 10.0, "cudaLaunchKernel", "cuda_runtime"),
    ]
    with loaded(tmp_path, THREE_GAPS, ONE_GAP) as trace:
        together = [*of_rank_0[:3], of_rank_1[0], *of_rank_0[3:], of_rank_1[1]]
        assert rows(trace, "idle.host") == together
        assert rows(trace, "idle.host", limit=2, rank=0) == of_rank_0[:2]
        longest = trace.run("idle.gap").rows()
        assert [(row["doing"], row["events"], row["self_ns"]) for row in longest] == [
            ("aten::sort", 1, 20_000),
            ("prepare", 1, 20_000),
            ("(no event recorded)", None, 7_000),
            ("cudaLaunchKernel", 1, 3_000),
        ]
        assert trace.run("idle.gap", gap=5).rows() == []


def test_events_that_overlap_without_nesting_share_a_gap() -> None:
    con = database(
        launch(ts=0, correlation=1),
        kernel(ts=2, dur=8, correlation=1),
        host("one", ts=5, dur=25),  # the gap is from 10 to 60
        host("other", ts=20, dur=60),
        launch(ts=55, dur=3, correlation=2),
        kernel(ts=60, dur=1, correlation=2),
    )
    assert sum(row[8] for row in answer(con, "idle.gap")) == 50_000


# --- overview.headlines --------------------------------------------------------------------------


def three_steps(*more: Event, prefill_us: float) -> list[Event]:
    """A prefill and two decode steps; the last all-reduces from 80 to 110, and computes from 100.

    On the GPU the steps take prefill_us, 20 and 40 us.
    """
    return [
        step(ts=0, dur=5, context=(1, 8)),
        launch(ts=1, correlation=1),
        kernel(ts=10, dur=prefill_us, correlation=1),
        step(ts=20, dur=5, generation=(2, 2)),
        launch(ts=21, correlation=2),
        kernel(ts=50, dur=20, correlation=2),
        step(ts=45, dur=5, generation=(2, 2)),
        *(launch(ts=46 + n, correlation=3 + n) for n in range(4)),
        kernel(ts=70, dur=10, correlation=3),
        all_reduce(ts=80, dur=30, ranks=(0, 1), stream=20, correlation=4),
        kernel("no rule knows this", ts=100, dur=10, correlation=5),
        *more,
    ]


@pytest.mark.slow
def test_headlines_of_two_ranks(tmp_path: Path) -> None:
    """Rank 0 spans 10 to 110 us: 30 + 20 + 10 + 10 of computing, 20 of communication that nothing
    hides, 10 idle. Rank 1 computes for 5 us more, of which rank 0 is idle, and copies until 130.
    """
    # In percent of the 100 us of rank 0 and the 120 us of rank 1.
    of = {us: pytest.approx(100 * us / 220) for us in (145, 40, 20, 15)}
    copy = kernel("Memcpy DtoH", ts=110, dur=20, correlation=6, cat="gpu_memcpy")
    ranks = (three_steps(prefill_us=30), three_steps(copy, prefill_us=35))
    with loaded(tmp_path, *ranks) as trace:
        known = [row["ok"] for row in trace.sql("FROM ledger") if row["ok"] is not None]
        held = known.count(True)
        assert held == len(known) - 2  # on both ranks, more than 1% of the time has no category
        assert rows(trace, "overview.headlines") == [
            ("recorded", 120_000.0, "ns", "longest GPU span of 2 ranks"),
            ("computing", of[145], "percent", "a compute kernel ran; percent of all GPU spans"),
            # Both ranks begin the operation together.
            ("exposed transfer", of[40], "percent",
             "a collective moved data, and no compute kernel ran"),
            ("exposed copies", of[20], "percent", "only memory copies or sets ran"),
            ("idle", of[15], "percent", "nothing ran on the GPU"),
            # On both ranks together 20, 40, 20 and, with the copy, 60 us.
            ("decode step", 30_000.0, "ns", "median duration on the GPU, of 2 steps"),
            ("prefill step", 32_500.0, "ns", "median duration on the GPU, of 1 step"),
            # 4 tokens in the 100 us of rank 0.
            ("output", pytest.approx(40_000.0), "tokens/s", "4 tokens generated"),
            ("ledger", held, "checks", f"of {len(known)} hold"),
        ]  # fmt: skip


def test_headlines_without_phases_and_tokens() -> None:
    """Computes for 6 of 10 us, and copies for 1."""
    con = database(kernel(ts=0, dur=6), kernel("Memset", ts=9, dur=1, cat="gpu_memset"))
    assert answer(con, "overview.headlines")[:-1] == [
        ("recorded", 10_000.0, "ns", "longest GPU span of 1 rank"),
        ("computing", 60.0, "percent", "a compute kernel ran; percent of all GPU spans"),
        ("exposed copies", 10.0, "percent", "only memory copies or sets ran"),
        ("idle", 30.0, "percent", "nothing ran on the GPU"),
    ]
