"""Waterfalls add up, rooflines show each ceiling once, and their texts do not cover each other."""

import itertools
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from derived import Row, Tables, answer, insert
from hypothesis import given, settings
from hypothesis import strategies as st
from test_waterfall import STEP, cost, filled

from traceql.present.report.charts import inline
from traceql.result.chart.draw import drawn
from traceql.result.chart.plane import Box, Point, places
from traceql.result.chart.worker import picture
from traceql.sql.query import Chart

_WATERFALL = {"x": "mean_ns", "y": "part", "color": "bar"}
_ROOFLINE = {
    "x": "intensity", "y": "achieved_tflops", "size": "total_ns", "color": "phase",
    "label": "role", "dtype": "dtype", "roofs": "peak_tflops,peak_gbps",
    "measured": "measured_tflops,measured_gbps",
}  # fmt: skip


def waterfall(*rows: tuple[str, str | None, float | None], width: int = 560) -> dict[str, Any]:
    bar, part, ns = zip(*rows, strict=True)
    table = pa.table({"bar": bar, "part": part, "mean_ns": pa.array(ns, pa.float64())})
    spec: dict[str, Any] = drawn(table, Chart("waterfall", _WATERFALL), width=width).to_dict()
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


def roofline(*rows: dict[str, Any], width: int = 560) -> Any:
    table = pa.Table.from_pylist(list(rows))
    return drawn(table, Chart("roofline", _ROOFLINE), width=width, tagged=True)


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


def test_percentages_of_a_heatmap_are_means_on_a_scale_to_100() -> None:
    table = pa.table({
        "layer": [0, 0, 1, 1], "role": ["act", "act", "act", "rope"],
        "ceiling_pct": [40.0, 60.0, 103.0, None],
    })  # fmt: skip
    chart = Chart("heatmap", {"x": "layer", "y": "role", "color": "ceiling_pct"})
    spec = drawn(table, chart, width=560).to_dict()
    (rows,) = spec["datasets"].values()
    assert [(row["layer"], row["ceiling_pct"]) for row in rows] == [(0, 50), (1, 103)]
    scale = spec["encoding"]["color"]["scale"]
    assert (scale["domain"], scale["clamp"]) == ([0, 100], True)


def test_each_pair_of_ceilings_is_one_roof_and_measured_ones_are_dashed() -> None:
    measured = {"measured_tflops": 794.0, "measured_gbps": 4230.0}
    spec = roofline(
        row("o_proj", **measured), row("qkv_proj", intensity=900.0, **measured),
        row("experts_down", dtype="fp8", peak_tflops=1978.9, achieved_tflops=30.0),
    ).to_dict()  # fmt: skip
    corners = {(row["roof"], row["measured"]) for row in data_of(spec, "roof")}
    assert corners == {(0, False), (1, False), (2, True)}
    dashes = [layer["mark"]["strokeDash"] for layer in spec["layer"] if "detail" in str(layer)]
    assert [bool(each) for each in dashes] == [False, True]
    texts = [row["text"] for row in data_of(spec, "text")]
    assert texts == ["fp8 1,979", "bf16 989, measured 794", "4,800 GB/s, measured 4,230"]


def test_roofs_bend_where_bytes_and_operations_take_the_same_time() -> None:
    spec = roofline(row("o_proj")).to_dict()
    start, ridge, end = data_of(spec, "roof")
    assert start["y"] == pytest.approx(start["x"] * 4.8)
    assert (ridge["x"], ridge["y"]) == (pytest.approx(989.4e3 / 4800), 989.4)
    assert end["y"] == 989.4
    assert start["x"] < 4 < ridge["x"] < end["x"]


@pytest.mark.slow
@pytest.mark.parametrize("width", [328, 560, 1170])
def test_points_and_names_say_their_phase(width: int) -> None:
    rows = [row("o_proj"), row("o_proj", phase="prefill", intensity=900.0, achieved_tflops=700.0)]
    drawing = inline(picture(roofline(*rows, width=width), ".svg"), "a", "").decode()
    assert float(ElementTree.fromstring(drawing).attrib["width"]) <= width
    assert drawing.count('data-phase="prefill"') >= 2
    assert drawing.count('data-phase="decode"') >= 2


_POINTS = st.lists(
    st.builds(
        Point,
        x=st.floats(0, 400), y=st.floats(0, 300), radius=st.floats(2, 10),
        name=st.text("abc", min_size=1, max_size=14), weight=st.floats(0, 9),
    ),
    max_size=18,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(_POINTS)
def test_no_name_covers_a_point_or_another_name(points: list[Point]) -> None:
    found = places(points, Box(0, 0, 400, 300), [], [])
    names = [place.box(p.name) for p, place in zip(points, found, strict=True) if place]
    circles = [point.box for point in points]
    pairs = [*itertools.combinations(names, 2), *itertools.product(names, circles)]
    assert not [pair for pair in pairs if _overlap(*pair)]
    assert all(box.left >= 0 and box.right <= 400 for box in names)


def _overlap(one: Box, other: Box) -> bool:
    """Whether they do more than touch."""
    across = min(one.right, other.right) - max(one.left, other.left)
    down = min(one.bottom, other.bottom) - max(one.top, other.top)
    return min(across, down) > 1e-6


# --- MFU, HFU and MBU of small steps, worked out by hand -----------------------------------------


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


@pytest.mark.slow
def test_work_at_known_peaks_is_counted() -> None:
    """20 of 100 ns for useful FLOPs, 40 for executed ones, and 31 for bytes."""
    found = utilization(of_steps(IN_BF16, WITHOUT_FLOPS))
    assert found == {"decode": (20, 40, 31, None)}


@pytest.mark.slow
def test_a_gpu_without_peaks_has_no_utilization() -> None:
    tables = of_steps(IN_BF16, WITHOUT_FLOPS)
    tables.con.execute("UPDATE trace SET device_name = 'part of a GPU'")
    missing = "peak of the memory: qkv_proj, input_norm; peak for bf16: qkv_proj"
    assert utilization(tables) == {"decode": (None, None, None, missing)}


@pytest.mark.slow
def test_a_gpu_without_a_name_is_what_is_missing() -> None:
    """Peaks are found by the name: to give peaks would not help."""
    tables = of_steps(IN_BF16, WITHOUT_FLOPS)
    tables.con.execute("UPDATE trace SET device_name = NULL")
    missing = "name of the GPU in the trace: qkv_proj, input_norm"
    assert utilization(tables) == {"decode": (None, None, None, missing)}


@pytest.mark.slow
def test_products_of_a_type_without_a_peak_are_told() -> None:
    """The memory reads the weights of both: 30 + 30 of 100 ns."""
    found = utilization(of_steps(IN_BF16, IN_FP8))
    assert found == {"decode": (20, 40, 60, "peak for fp8: gate_up_proj")}


@pytest.mark.slow
@pytest.mark.parametrize("unknown", ["flops", "weight_bytes"])
def test_unknown_work_beside_parts_without_work_is_no_zero(unknown: str) -> None:
    attention = cost("attention", dur_ns=90, **PRODUCT | {unknown: None}, missing="KV lengths")
    free = cost("rope", dur_ns=10, **NORM | {"weight_bytes": 0})
    ((mfu, _, mbu, missing),) = utilization(of_steps(attention, free)).values()
    assert (mfu, mbu) == ((None, 30) if unknown == "flops" else (20, None))
    assert missing == "KV lengths: attention"


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_step_that_computes_for_nobody_uses_nothing() -> None:
    """All of its rows pad the batch: its FLOPs are known, and executed, but not useful."""
    padded = cost("qkv_proj", dur_ns=40, **PRODUCT | {"flops": 0})
    assert utilization(of_steps(padded)) == {"decode": (0, 40, 30, None)}
