"""MFU, HFU and MBU of small steps, worked out by hand: what is unknown is no zero."""

from typing import Any

import pytest
from derived import Row, Tables, answer, insert
from test_waterfall import STEP, cost, filled

pytestmark = pytest.mark.slow

# One step of 100 ns on a GPU where 1 FLOP takes 1 ps in bf16, and 1 byte 1 ns.
PRODUCT = {"flops": 20_000, "executed_flops": 40_000, "weight_bytes": 30, "kv_bytes": 0}
NORM = {"flops": 0, "executed_flops": 0, "weight_bytes": 1, "kv_bytes": 0}
IN_BF16 = cost("qkv_proj", dur_ns=40, **PRODUCT)
IN_FP8 = cost("gate_up_proj", dur_ns=50, **PRODUCT | {"dtype": "fp8"})
WITHOUT_FLOPS = cost("input_norm", dur_ns=10, **NORM)


def of_steps(*costs: dict[str, Any]) -> Tables:
    """Decode steps of 100 ns on rank 0 with these parts."""
    tables = filled()
    for step_id in {one["step_id"] for one in costs}:
        phase = "decode" if step_id == 0 else "prefill"
        step = {"rank": 0, "step_id": step_id, "phase": phase}
        insert(tables, "step", step | {"gpu_dur": 100})
        insert(tables, "device_timeline", step | {"dur": 100})
    insert(tables, "cost", *costs)
    return tables


def utilization(tables: Tables) -> dict[str, Row]:
    """MFU, HFU, MBU in percent, and what is missing, by phase."""
    return {
        phase: (mfu and round(mfu, 6), hfu and round(hfu, 6), mbu and round(mbu, 6), missing)
        for phase, mfu, hfu, mbu, *_, missing in answer(tables, "model.mfu")
    }


def test_work_at_known_peaks_is_counted() -> None:
    """20 of 100 ns for useful FLOPs, 40 for executed ones, and 31 for bytes."""
    found = utilization(of_steps(IN_BF16, WITHOUT_FLOPS))
    assert found == {"decode": (20, 40, 31, None)}


def test_a_gpu_without_peaks_has_no_utilization() -> None:
    tables = of_steps(IN_BF16, WITHOUT_FLOPS)
    tables.con.execute("UPDATE trace SET device_name = 'part of a GPU'")
    missing = "peak of the memory: qkv_proj, input_norm; peak for bf16: qkv_proj"
    assert utilization(tables) == {"decode": (None, None, None, missing)}


def test_a_gpu_without_a_name_is_what_is_missing() -> None:
    """Peaks are found by the name: to give peaks would not help."""
    tables = of_steps(IN_BF16, WITHOUT_FLOPS)
    tables.con.execute("UPDATE trace SET device_name = NULL")
    missing = "name of the GPU in the trace: qkv_proj, input_norm"
    assert utilization(tables) == {"decode": (None, None, None, missing)}


def test_products_of_a_type_without_a_peak_are_told() -> None:
    """The memory reads the weights of both: 30 + 30 of 100 ns."""
    found = utilization(of_steps(IN_BF16, IN_FP8))
    assert found == {"decode": (20, 40, 60, "peak for fp8: gate_up_proj")}


@pytest.mark.parametrize("unknown", ["flops", "weight_bytes"])
def test_unknown_work_beside_parts_without_work_is_no_zero(unknown: str) -> None:
    attention = cost("attention", dur_ns=90, **PRODUCT | {unknown: None}, missing="KV lengths")
    free = cost("rope", dur_ns=10, **NORM | {"weight_bytes": 0})
    ((mfu, _, mbu, missing),) = utilization(of_steps(attention, free)).values()
    assert (mfu, mbu) == ((None, 30) if unknown == "flops" else (20, None))
    assert missing == "KV lengths: attention"


def test_all_phases_name_each_part_once() -> None:
    """Of two steps, 200 ns: only that of prefill has FLOPs whose peak is known."""
    prefill = STEP | {"step_id": 1}
    found = utilization(of_steps(IN_FP8, IN_BF16 | prefill, IN_FP8 | prefill))
    missing = "peak for fp8: gate_up_proj"
    assert found == {
        "decode": (None, None, 30, missing),
        "prefill": (20, 40, 60, missing),
        "all": (10, 20, 45, missing),
    }


def test_a_step_that_computes_for_nobody_uses_nothing() -> None:
    """All of its rows pad the batch: its FLOPs are known, and executed, but not useful."""
    padded = cost("qkv_proj", dur_ns=40, **PRODUCT | {"flops": 0})
    assert utilization(of_steps(padded)) == {"decode": (0, 40, 30, None)}
