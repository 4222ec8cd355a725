"""Charts: bars of waterfalls, roofs of rooflines; and utilization worked out by hand."""

from typing import Any

import pyarrow as pa
import pytest
from derived import Row, answer, insert
from test_waterfall import STEP, cost, filled

from traceql.result.chart.draw import drawn
from traceql.sql.query import Chart

_WATERFALL = {"x": "mean_ns", "y": "part", "color": "bar"}
_ROOFLINE = {
    "x": "intensity", "y": "achieved_tflops", "size": "total_ns", "color": "phase",
    "label": "role", "dtype": "dtype", "roofs": "peak_tflops,peak_gbps",
    "measured": "measured_tflops,measured_gbps",
}  # fmt: skip


def waterfall(*rows: tuple[str, str | None, float | None]) -> dict[str, Any]:
    bar, part, ns = zip(*rows, strict=True)
    table = pa.table({"bar": bar, "part": part, "mean_ns": pa.array(ns, pa.float64())})
    spec: dict[str, Any] = drawn(table, Chart("waterfall", _WATERFALL), width=560).to_dict()
    return spec


def bars_of(spec: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Where each bar starts and ends."""
    (rows,) = spec["datasets"].values()
    return {row["name"]: (round(row["start"], 6), round(row["end"], 6)) for row in rows}


def row(role: str, **other: Any) -> dict[str, Any]:
    return {
        "phase": "decode", "role": role, "dtype": "bf16", "intensity": 4.0,
        "achieved_tflops": 12.0, "total_ns": 5, "peak_tflops": 989.4, "peak_gbps": 4800.0,
        "measured_tflops": None, "measured_gbps": None,
    } | other  # fmt: skip


def roofline(*rows: dict[str, Any]) -> dict[str, Any]:
    table = pa.Table.from_pylist(list(rows))
    spec: dict[str, Any] = drawn(table, Chart("roofline", _ROOFLINE), width=560).to_dict()
    return spec


def data_of(spec: dict[str, Any], column: str) -> list[dict[str, Any]]:
    """The rows of the layers whose data has the column."""
    return [row for rows in spec["datasets"].values() for row in rows if column in row]


def test_each_bar_begins_where_the_one_before_it_ended() -> None:
    spec = waterfall(
        ("floor", "floor", 3e6), ("below_roofline", "o_proj", 1e6),
        ("below_roofline", "qk_norm", -0.5e6), ("padding", "padding", 0),
        ("comm_floor", "comm_floor", None), ("idle", None, 0.25e6),
    )  # fmt: skip
    assert bars_of(spec) == {
        "total": (0, 3.75), "floor": (0, 3), "o_proj": (3, 4), "qk_norm": (4, 3.5),
        "idle": (3.5, 3.75),
    }  # fmt: skip
    (rows,) = spec["datasets"].values()
    assert [row["label"] for row in rows] == [
        "3.75 ms\u2002100%", "3.00 ms\u200280%", "1.00 ms\u200227%",
        "\u22120.50 ms\u2002\u221213%", "0.25 ms\u20026.7%",
    ]  # fmt: skip


def test_small_parts_of_one_kind_share_a_bar_after_the_others() -> None:
    spec = waterfall(
        ("floor", "floor", 1e9), ("below_roofline", "act", 3e6), ("below_roofline", "o_proj", 9e7),
        ("below_roofline", "rope", -1e6), ("small_kernels", "act", 1e6),
        ("small_kernels", "rope", 1e6), ("idle", "host", 1e6),
    )  # fmt: skip
    assert bars_of(spec) == {
        "total": (0, 1095), "floor": (0, 1000), "o_proj": (1000, 1090), "2 others": (1090, 1092),
        "small kernels": (1092, 1094), "host": (1094, 1095),
    }  # fmt: skip


def test_each_pair_of_ceilings_is_one_roof_and_measured_ones_are_dashed() -> None:
    measured = {"measured_tflops": 794.0, "measured_gbps": 4230.0}
    spec = roofline(
        row("o_proj", **measured), row("qkv_proj", intensity=900.0, **measured),
        row("experts_down", dtype="fp8", peak_tflops=1978.9, achieved_tflops=30.0),
    )  # fmt: skip
    corners = {(row["roof"], row["measured"]) for row in data_of(spec, "roof")}
    assert corners == {(0, False), (1, False), (2, True)}
    dashes = [layer["mark"]["strokeDash"] for layer in spec["layer"] if "detail" in str(layer)]
    assert [bool(each) for each in dashes] == [False, True]
    texts = [row["text"] for row in data_of(spec, "text")]
    assert texts == ["fp8 1,979", "bf16 989, measured 794", "4,800 GB/s, measured 4,230"]


def test_roofs_bend_where_bytes_and_operations_take_the_same_time() -> None:
    spec = roofline(row("o_proj"))
    start, ridge, end = data_of(spec, "roof")
    assert start["y"] == pytest.approx(start["x"] * 4.8)
    assert (ridge["x"], ridge["y"]) == (pytest.approx(989.4e3 / 4800), 989.4)
    assert end["y"] == 989.4
    assert start["x"] < 4 < ridge["x"] < end["x"]


# --- MFU, HFU and MBU of small steps, worked out by hand -----------------------------------------


# One step of 100 ns on a GPU where 1 FLOP takes 1 ps in bf16, and 1 byte 1 ns.
PRODUCT = {"flops": 20_000, "executed_flops": 40_000, "weight_bytes": 30, "kv_bytes": 0}
NORM = {"flops": 0, "executed_flops": 0, "weight_bytes": 1, "kv_bytes": 0}
IN_BF16 = cost("qkv_proj", dur_ns=40, **PRODUCT)
IN_FP8 = cost("gate_up_proj", dur_ns=50, **PRODUCT | {"dtype": "fp8"})
WITHOUT_FLOPS = cost("input_norm", dur_ns=10, **NORM)
FREE = cost("rope", dur_ns=10, **NORM | {"weight_bytes": 0})
# All of its rows pad the batch: its FLOPs are known, and executed, but not useful.
PADDING = cost("qkv_proj", dur_ns=40, **PRODUCT | {"flops": 0})
PREFILL = STEP | {"step_id": 1}


def attention(unknown: str) -> dict[str, Any]:
    return cost("attention", dur_ns=90, **PRODUCT | {unknown: None}, missing="KV lengths")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("costs", "device", "expected"),
    [
        # 20 of 100 ns for useful FLOPs, 40 for executed ones, and 31 for bytes.
        ([IN_BF16, WITHOUT_FLOPS], "GPU", {"decode": (20, 40, 31, None)}),
        ([PADDING], "GPU", {"decode": (0, 40, 30, None)}),
        (
            [IN_BF16, WITHOUT_FLOPS],
            "part of a GPU",
            {
                "decode": (
                    *(None, None, None),
                    "peak of the memory: qkv_proj, input_norm; peak for bf16: qkv_proj",
                )
            },
        ),
        # Peaks are found by the name of the GPU.
        (
            [IN_BF16, WITHOUT_FLOPS],
            None,
            {"decode": (None, None, None, "name of the GPU in the trace: qkv_proj, input_norm")},
        ),
        # Unknown work beside parts without work is no zero.
        ([attention("flops"), FREE], "GPU", {"decode": (None, 40, 30, "KV lengths: attention")}),
        (
            [attention("weight_bytes"), FREE],
            "GPU",
            {"decode": (20, 40, None, "KV lengths: attention")},
        ),
        # Of two steps, 200 ns: only that of prefill has FLOPs whose peak is known.
        (
            [IN_FP8, IN_BF16 | PREFILL, IN_FP8 | PREFILL],
            "GPU",
            {
                "decode": (None, None, 30, "peak for fp8: gate_up_proj"),
                "prefill": (20, 40, 60, "peak for fp8: gate_up_proj"),
                "all": (10, 20, 45, "peak for fp8: gate_up_proj"),
            },
        ),
    ],
)
def test_utilization_counts_work_at_known_peaks(
    costs: list[dict[str, Any]], device: str | None, expected: dict[str, Row]
) -> None:
    """MFU, HFU, MBU in percent, and what is missing, by phase."""
    tables = filled()
    for step_id in {one["step_id"] for one in costs}:
        step = {"rank": 0, "step_id": step_id, "phase": ("decode", "prefill")[step_id]}
        insert(tables, "step", step | {"gpu_dur": 100})
        insert(tables, "device_timeline", step | {"dur": 100})
    insert(tables, "cost", *costs)
    tables.con.execute("UPDATE trace SET device_name = ?", [device])
    assert expected == {
        phase: (*(known and round(known, 6) for known in (mfu, hfu, mbu)), missing)
        for phase, mfu, hfu, mbu, *_, missing in answer(tables, "model.mfu")
    }
