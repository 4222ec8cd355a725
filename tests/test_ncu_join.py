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
    assert matches(tables) == [
        (0, 0, "mean", None, 2),
        (1, 0, "mean", None, 1),
        (2, 0, "mean", None, 2),
    ]
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
        (0, 0, "mean", None, 1),
        (1, 0, "mean", None, 1),
        (2, 0, "range", 0, 1),
        (3, 0, "range", 1, 1),
        (4, 0, "range", 0, 1),
        (5, 0, "range", 1, 1),
    ]


def test_a_profile_of_several_steps_has_several_launches_for_each_place() -> None:
    """Three decode steps in the trace, two in the profile; the prefill is another sequence."""
    tables = database(*trace_of(["b", "a"], ["a", "b", "a"], ["a", "b", "a"], ["a", "b", "a"]))
    profiled(tables, *({"name": name, "ranges": [DECODE]} for name in "abaaba"))
    found = matches(tables)
    assert [row[2] for row in found[:2]] == ["mean", "mean"]
    of_a_step = [(0, 3), (1, 4), (2, 5)]
    assert found[2:] == [
        (2 + place, 0, "range", launch, 1)
        for place, launches in enumerate(of_a_step * 3)
        for launch in launches
    ]
    for launch in range(6):
        one = {"metric": TENSOR, "value": 10**launch}
        insert(tables, "kernel_metric", {"launch": launch} | one)
    counted = rows(tables, "SELECT launches, tensor_flops FROM counted_kernel ORDER BY kernel_id")
    assert counted[2:5] == [(2, 500.5), (2, 5_005), (2, 50_050)]


def test_kernels_in_another_order_of_template_arguments_are_not_at_their_place() -> None:
    tables = database(*trace_of(["f<2>(x)", "f<3>(x)"]))
    profiled(tables, {"name": "f<3>(x)"}, {"name": "f<2>(x)"})
    assert matches(tables) == [(0, 0, "mean", None, 1), (1, 0, "mean", None, 1)]


def test_launches_in_the_range_of_a_step_stand_for_no_step_of_another_name() -> None:
    tables = database(*trace_of(["a", "b"], ["a", "b"], ["a", "b"]))
    profiled(tables, {"name": "a", "ranges": [PREFILL]}, {"name": "b", "ranges": [PREFILL]})
    assert [row[:4] for row in matches(tables)] == [
        (0, 0, "range", 0),
        (1, 0, "range", 1),
        *((number, 0, "mean", None) for number in range(2, 6)),
    ]


def test_launches_in_a_range_are_compared_with_what_was_launched_inside_it() -> None:
    """The last kernel is launched after the range, and before the next step."""
    events = trace_of(["a", "b"], ["a", "b"])
    where: dict[str, Any] = {"grid": GRID, "block": BLOCK}
    events.append(traces.launch(ts=192, correlation=900))
    events.append(traces.kernel("a", ts=194, dur=5, correlation=900, **where))
    tables = database(*events)
    profiled(tables, {"name": "a", "ranges": [DECODE]}, {"name": "b", "ranges": [DECODE]})
    assert [row[:4] for row in matches(tables)][2:] == [
        (2, 0, "range", 0),
        (3, 0, "range", 1),
        (4, 0, "mean", None),
    ]


def test_launches_in_a_range_are_those_of_the_steps_of_that_name() -> None:
    tables = database(*trace_of(["a", "b"], ["a", "b"], ["a", "b"]))
    # Of the prefill, only one kernel was profiled.
    inside = [{"name": n, "ranges": ["outer", DECODE]} for n in "abab"]
    profiled(tables, {"name": "a", "ranges": [PREFILL]}, *inside)
    found = matches(tables)
    assert found[2:] == [(2 + n, 0, "range", 1 + n, 1) for n in range(4)]
    assert [row[2:] for row in found[:2]] == [("mean", None, 3), ("mean", None, 2)]


def test_order_does_not_count_where_sizes_differ() -> None:
    tables = database(*trace_of(["a"], ["a"]))
    profiled(tables, {"name": "a"}, {"name": "a", "grid": [4, 1, 1]})
    assert [row[2:] for row in matches(tables)] == [("mean", None, 1)] * 2
    joined = {row[10]: row[1] for row in answer(tables, "ncu.joined")}
    assert joined == {"[2, 1, 1]": "mean", "[4, 1, 1]": "only profile"}


def test_collectives_that_were_not_profiled_do_not_disturb_the_order() -> None:
    tables = database(*trace_of(["a", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "b"]))
    profiled(tables, {"name": "a"}, {"name": "b"})
    assert matches(tables) == [(0, 0, "order", 0, 1), (2, 0, "order", 1, 1)]
    commands = {row[1]: row[12] for row in answer(tables, "ncu.joined")}
    assert (commands["only trace"], commands["order"] is None) == (None, False)


def test_template_arguments_tell_kernels_of_one_size_apart() -> None:
    tables = database(*trace_of(["void f<2, true>(int)", "void f<3, true>(int)", "f<x>(y)"]))
    profiled(
        tables, {"name": "void f<3, 1>(T1)"}, {"name": "void f<2, 1>(T1)"}, {"name": "f<z>(T1)"},
        {"name": "other"},
    )  # fmt: skip
    keys = "SELECT base, arguments, kernels, launches FROM kernel_key ORDER BY base, arguments"
    assert rows(tables, keys) == [
        ("f", "2,1", 1, 1),
        ("f", "3,1", 1, 1),
        ("f", None, 1, 1),  # whose arguments the two sides write in different ways
        ("other", None, 0, 1),
    ]


def test_names_without_arguments_match_the_base() -> None:
    """As `ncu --print-kernel-base function` prints them."""
    tables = database(*trace_of(["void f<2>(int)", "void f<3>(int)", "g"]))
    profiled(tables, {"name": "f"})
    assert [row[0] for row in matches(tables)] == [0, 1]


def test_each_profile_is_matched_alone() -> None:
    tables = database(*trace_of(["a", "b"]))
    profiled(tables, {"name": "a"}, {"name": "b"})
    profiled(tables, {"name": "b"}, file=1)
    assert matches(tables) == [
        (0, 0, "order", 0, 1),
        (1, 0, "order", 1, 1),
        (1, 1, "mean", None, 1),
    ]


def test_graphs_and_ranges_stand_for_no_kernel() -> None:
    tables = database(*trace_of(["graph"]))
    profiled(tables, {"name": "graph", "kind": "graph"})
    assert matches(tables) == []
    check = "SELECT value, total, ok FROM ledger WHERE check_name = 'launches of the profile'"
    assert rows(tables, check) == [(0, 1, False)]
    listed = [(row[0], row[1], row[2], row[4]) for row in answer(tables, "ncu.joined")]
    assert listed == [("graph", "only trace", 1, 0), ("(graph)", "only profile", 0, 1)]


@pytest.mark.slow
def test_a_profile_of_another_gpu_fails_the_ledger() -> None:
    tables = database(*trace_of(["a", "b"]))
    tables.con.execute("UPDATE trace SET device_name = 'NVIDIA H200'")
    profiled(tables, {"name": "a", "device_name": "NVIDIA H200"}, {"name": "b"})
    profiled(tables, {"name": "a", "device_name": "NVIDIA H100 80GB HBM3"}, file=1)
    check = "SELECT value, total, ok FROM ledger WHERE check_name = 'GPU of the profile' ORDER BY 1"
    assert rows(tables, check) == [(0, 1, False), (1, 1, True)]


def test_the_command_skips_the_launches_of_the_same_function() -> None:
    tables = database(*trace_of(["f<1>(x)", "g", "f<2>(x)", "f<1>(x)"]))
    profiled(tables, {"name": "f<2>(x)"})
    commands = {(row[0], row[1]): row[12] for row in answer(tables, "ncu.joined")}
    assert commands["f<2>", "mean"] == (
        "ncu --kernel-name 'regex:^f$' --launch-skip 1 --launch-count 1"
    )
    assert commands["f", "only trace"].endswith("--launch-skip 0 --launch-count 1")


# --- what a launch moved and computed --------------------------------------------------------

_WORK = "SELECT dur_ns, dram_bytes, vector_flops, tensor_flops, flops, dtype FROM profiled_work"
_ADD, _MUL, _FMA = (
    f"smsp__sass_thread_inst_executed_op_f{one}_pred_on.sum" for one in ("add", "mul", "fma")
)
Metric = tuple[str, str | None, float]
_VECTOR: list[Metric] = [(_ADD, "inst", 1), (_MUL, "inst", 2), (_FMA, "inst", 4)]
_SPEED, _MEMORY = "GPU Speed Of Light Throughput", "Memory Workload Analysis"


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([(READ, "byte", 60), (WRITTEN, "byte", 4)], (None, 64, None, None, None, None)),
        ([(READ, "byte", 60)], (None, None, None, None, None, None)),
        ([("dram__bytes.sum", "byte", 9), (DURATION, "ns", 3)], (3, 9, None, None, None, None)),
        (_VECTOR, (None, None, 11, None, None, None)),
        ([(_ADD, "inst", 1), (_MUL, "inst", 2)], (None, None, None, None, None, None)),
        ([(TENSOR, None, 512)], (None, None, None, 512, 512, "bf16")),
        ([(TENSOR, None, 0)], (None, None, None, 0, None, None)),
        (
            [(TENSOR, None, 0), *_VECTOR],
            (None, None, 11, 0, 11, None),
        ),
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


def test_bytes_of_the_details_page_are_throughput_times_duration() -> None:
    """The same label is a share of the peak in another section."""
    tables = database()
    profiled(tables, {"name": "a"})
    for section, name, unit, value in (
        (_SPEED, "Duration", "ns", 21_000_000),
        (_SPEED, "Memory Throughput", "%", 61.84),
        (_MEMORY, "Memory Throughput", "byte/s", 2e11),
    ):
        one = {"section": section, "metric": name, "unit": unit, "value": value}
        insert(tables, "kernel_metric", {"launch": 0} | one)
    assert rows(tables, _WORK) == [(21_000_000, 4.2e9, None, None, None, None)]


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
    found = "SELECT how, launches, dram_bytes, tensor_flops FROM counted_kernel ORDER BY kernel_id"
    assert rows(tables, found) == [("order", 1, 4_096, 64), ("order", 1, None, None)]


@pytest.mark.slow
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
        (row,) = loaded.run("ncu.roofline").rows()
        assert loaded.run("ncu.roofline").chart() is not None  # of a kernel without a role
    assert (row["kernel"], row["calls"], row["mean_ns"], row["ncu_ns"]) == ("a", 1, 5_000, 9_000)
    assert (row["how"], row["launches"], row["bytes_spread_pct"]) == ("mean", 2, 0)
    assert row["achieved_gbps"] == pytest.approx(12_000_000 / 5_000)
    assert row["achieved_tflops"] == pytest.approx(3e9 / 5_000 / 1000)
    # Data sheet of the H200: 4,800 GB/s and 989.4 TFLOP/s with bf16.
    assert row["memory_pct"] == pytest.approx(100 * 2400 / 4800)
    assert row["compute_pct"] == pytest.approx(100 * 600 / 989.4)
    assert (row["intensity"], row["bound"]) == (250, "compute")


@pytest.mark.slow
def test_a_mean_of_launches_that_differ_is_in_the_ledger() -> None:
    tables = database(*trace_of(["a", "b"]))
    profiled(tables, {"name": "a"}, {"name": "a"}, {"name": "b"})
    for launch, read in ((0, 100), (1, 120), (2, 7)):
        for name, value in ((READ, read), (WRITTEN, 0)):
            one = {"metric": name, "unit": "byte", "value": value}
            insert(tables, "kernel_metric", {"launch": launch} | one)
    check = "SELECT value, total, ok FROM ledger WHERE check_name = 'counters that vary'"
    assert rows(tables, check) == [(1, 2, None)]
    spreads = {row[0]: row[8] for row in answer(tables, "ncu.joined")}
    assert spreads["a"] == pytest.approx(100 * 20 / 110)
    covered = (
        "SELECT value, total FROM ledger WHERE check_name LIKE 'kernel%with counters' ORDER BY 2"
    )
    assert rows(tables, covered) == [(2, 2), (10_000, 10_000)]
    means = "SELECT value, total FROM ledger WHERE check_name = 'kernels with mean counters'"
    assert rows(tables, means) == [(2, 2)]
