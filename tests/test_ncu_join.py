"""Launches of Nsight Compute and kernels of a trace, from a few rows worked out by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ncu_like
import pytest
import traces
from derived import Row, Tables, answer, database, insert, rows
from ncu_like import DURATION, READ, TENSOR, WRITTEN

import traceql

pytestmark = pytest.mark.slow

GRID, BLOCK = [2, 1, 1], [64, 1, 1]
PREFILL, DECODE = "execute_context_1(9)_generation_0(0)", "execute_context_0(0)_generation_1(1)"
_MATCH = "SELECT kernel_id, file_id, how, launch, launches FROM kernel_match"


def trace_of(*steps: Sequence[str], context: int = 1) -> list[traces.Event]:
    """Steps, the first of which is a prefill, with kernels of these names, 10 us apart."""
    events: list[traces.Event] = []
    for number, names in enumerate(steps):
        ts = number * 100
        sizes: dict[str, Any] = {"context": (context, 9)} if number == 0 else {"generation": (1, 1)}
        events.append(traces.step(ts=ts, dur=90, **sizes))
        for place, name in enumerate(names):
            at, correlation = ts + 1 + 10 * place, 1 + number * 100 + place
            events.append(traces.launch(ts=at, correlation=correlation))
            where: dict[str, Any] = {"grid": GRID, "block": BLOCK}
            events.append(traces.kernel(name, ts=at + 2, dur=5, correlation=correlation, **where))
    return events


def profiled(tables: Tables, *launches: dict[str, Any], file: int = 0) -> None:
    """Launches in one file, numbered from 0."""
    insert(tables, "profile_file", {"id": file, "path": f"/{file}.csv"})
    for number, one in enumerate(launches):
        sizes = {"kind": "kernel", "grid": GRID, "block": BLOCK, "ranges": []}
        about = {"id": 100 * file + number, "file_id": file, "number": number}
        insert(tables, "profiled_launch", about | sizes | one)


def matches(tables: Tables) -> list[Row]:
    """Kernels by their place among all kernels; see table kernel_match."""
    found = rows(tables, f"{_MATCH} ORDER BY kernel_id, file_id, launch")
    ids = [row[0] for row in rows(tables, "SELECT id FROM kernel ORDER BY ts")]
    return [(ids.index(kernel_id), *others) for kernel_id, *others in found]


def test_launches_in_the_order_of_all_kernels_are_theirs() -> None:
    tables = database(*trace_of(["a", "b"], ["a"]))
    profiled(tables, {"name": "a"}, {"name": "b"}, {"name": "a"})
    assert matches(tables) == [(n, 0, "order", n, 1) for n in range(3)]


def test_without_one_order_a_kernel_has_the_mean_of_its_key() -> None:
    tables = database(*trace_of(["a", "b"], ["a", "c"]))
    profiled(tables, {"name": "a"}, {"name": "a"}, {"name": "b"}, {"name": "d"})
    assert matches(tables) == [(n, 0, "mean", None, (2, 1, 2)[n]) for n in range(3)]
    found = {row[0]: row[1:5] for row in answer(tables, "ncu.joined")}
    assert found == {
        "a": ("mean", 2, 10_000, 2),
        "b": ("mean", 1, 5_000, 1),
        "c": ("only trace", 1, 5_000, 0),
        "d": ("only profile", 0, 0, 1),
    }


def test_a_profile_of_one_step_is_that_of_all_steps_with_the_same_kernels() -> None:
    tables = database(*trace_of(["b", "a"], ["a", "b"], ["a", "b"]))
    profiled(tables, {"name": "a"}, {"name": "b"})
    assert matches(tables) == [
        *((n, 0, "mean", None, 1) for n in (0, 1)),
        *((n, 0, "range", n % 2, 1) for n in (2, 3, 4, 5)),
    ]


def test_launches_in_a_range_are_compared_with_what_was_launched_inside_it() -> None:
    """The last kernel is launched after the range, and before the next step."""
    events = trace_of(["a", "b"], ["a", "b"])
    where: dict[str, Any] = {"grid": GRID, "block": BLOCK}
    events.append(traces.launch(ts=192, correlation=900))
    events.append(traces.kernel("a", ts=194, dur=5, correlation=900, **where))
    tables = database(*events)
    profiled(tables, {"name": "a", "ranges": [DECODE]}, {"name": "b", "ranges": [DECODE]})
    found = [row[2:4] for row in matches(tables)]
    assert found[2:] == [("range", 0), ("range", 1), ("mean", None)]


def test_collectives_that_were_not_profiled_do_not_disturb_the_order() -> None:
    tables = database(*trace_of(["a", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "b"]))
    profiled(tables, {"name": "a"}, {"name": "b"})
    assert matches(tables) == [(0, 0, "order", 0, 1), (2, 0, "order", 1, 1)]
    commands = {row[1]: row[12] for row in answer(tables, "ncu.joined")}
    assert (commands["only trace"], commands["order"] is None) == (None, False)


def test_a_profile_of_another_gpu_fails_the_ledger() -> None:
    tables = database(*trace_of(["a", "b"]))
    tables.con.execute("UPDATE trace SET device_name = 'NVIDIA H200'")
    profiled(tables, {"name": "a", "device_name": "NVIDIA H200"}, {"name": "b"})
    profiled(tables, {"name": "a", "device_name": "NVIDIA H100 80GB HBM3"}, file=1)
    check = "SELECT value, total, ok FROM ledger WHERE check_name = 'GPU of the profile' ORDER BY 1"
    assert rows(tables, check) == [(0, 1, False), (1, 1, True)]


# --- what a launch moved and computed --------------------------------------------------------

_WORK = "SELECT dur, dram_bytes, vector_flops, tensor_flops, flops, dtype FROM profiled_work"
_ADD, _MUL, _FMA = (
    f"smsp__sass_thread_inst_executed_op_f{one}_pred_on.sum" for one in ("add", "mul", "fma")
)
Metric = tuple[str, str | None, float]
_VECTOR: list[Metric] = [(_ADD, "inst", 1), (_MUL, "inst", 2), (_FMA, "inst", 4)]


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([(READ, "byte", 60), (WRITTEN, "byte", 4)], (None, 64, None, None, None, None)),
        ([(READ, "byte", 60)], (None, None, None, None, None, None)),
        ([("dram__bytes.sum", "byte", 9), (DURATION, "ns", 3)], (3, 9, None, None, None, None)),
        (_VECTOR, (None, None, 11, None, None, None)),
        ([(_ADD, "inst", 1), (_MUL, "inst", 2)], (None, None, None, None, None, None)),
        ([(TENSOR, None, 0)], (None, None, None, 0, None, None)),
        ([(TENSOR, None, 0), *_VECTOR], (None, None, 11, 0, 11, None)),
        (
            [
                ("sm__ops_path_tensor_src_fp8_dst_fp32_sparsity_off.sum", None, 30),
                ("sm__ops_path_tensor_src_fp8_dst_fp32_sparsity_on.sum", None, 2),
                (TENSOR, None, 0),
            ],
            (None, None, None, 32, 32, "fp8"),
        ),
        # A total, the same by instruction, and another type of which only these are counted.
        (
            [
                (TENSOR, None, 100),
                ("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum", None, 90),
                ("sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32.sum", None, 10),
                ("sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_off.sum", None, 3),
                ("sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32_sparsity_on.sum", None, 4),
                ("sm__ops_path_tensor_src_bf16_dst_fp32.sum.per_second", None, 1e12),
            ],
            (None, None, None, 107, 107, "bf16"),
        ),
        # Busy with numbers of a type that was not counted.
        (
            [
                (TENSOR, None, 0),
                ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "%", 60),
            ],
            (None, None, None, None, None, None),
        ),
    ],
)  # fmt: skip
def test_work_of_a_launch(metrics: list[Metric], expected: Row) -> None:
    tables = database()
    profiled(tables, {"name": "a"})
    for name, unit, value in metrics:
        insert(tables, "kernel_metric", {"launch": 0, "metric": name, "unit": unit, "value": value})
    assert rows(tables, _WORK) == [expected]


def test_of_several_profiles_the_best_one_counts() -> None:
    """One by one: known by its order, then less rounded, then what the others do not have."""
    tables = database(*trace_of(["a", "b"]))
    for file, names in enumerate(("ab", "ab", "a")):
        profiled(tables, *({"name": name} for name in names), file=file)
    for launch, read, step in ((0, 4_000, 1_000.0), (100, 4_096, 1.0), (200, 9, 0.0)):
        for name, value in ((READ, read), (WRITTEN, 0)):
            one = {"metric": name, "unit": "byte", "value": value, "step": step}
            insert(tables, "kernel_metric", {"launch": launch} | one)
    insert(tables, "kernel_metric", {"launch": 200, "metric": TENSOR, "value": 64})
    found = "SELECT how, launches, dram_bytes, tensor_flops FROM profiled_kernel ORDER BY kernel_id"
    assert rows(tables, found) == [("order", 1, 4_096, 64), ("order", 1, None, None)]


def test_roofline_divides_by_the_time_of_the_trace(tmp_path: Path) -> None:
    """The file says that the kernel took 9 us; the trace, 5 us."""
    work = {READ: "10,000,000", WRITTEN: "2,000,000", TENSOR: "3,000,000,000", DURATION: "9,000"}
    profile = tmp_path / "profile.csv"
    launches = [ncu_like.launch(name, work, grid=GRID, block=BLOCK) for name in "aab"]
    profile.write_text(ncu_like.raw(*launches))
    metadata = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
    trace = traces.write(tmp_path / "a.json", *trace_of(["a", "c"]), **metadata)
    traceql.load([trace, profile], tmp_path / "a.duckdb")
    with traceql.open(tmp_path / "a.duckdb") as loaded:
        (row,) = loaded.query("ncu.roofline").rows()
        assert loaded.query("ncu.roofline").chart() is not None  # of a kernel without a role
    assert (row["kernel"], row["calls"], row["mean_ns"], row["ncu_ns"]) == ("a", 1, 5_000, 9_000)
    assert (row["how"], row["launches"], row["bytes_spread_pct"]) == ("mean", 2, 0)
    assert row["achieved_gbps"] == pytest.approx(12_000_000 / 5_000)
    assert row["achieved_tflops"] == pytest.approx(3e9 / 5_000 / 1000)
    # Data sheet of the H200: 4,800 GB/s and 989.4 TFLOP/s with bf16.
    assert row["memory_pct"] == pytest.approx(100 * 2400 / 4800)
    assert row["compute_pct"] == pytest.approx(100 * 600 / 989.4)
    assert (row["intensity"], row["bound"]) == (250, "compute")
