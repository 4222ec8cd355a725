"""Charts of experiments: each point is drawn with its interval, and lines go where they should."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from traceql.chart.draw import drawn
from traceql.chart.palette import ORDER, in_order
from traceql.query import Chart

CURVE = {
    "x": "prompt_tokens", "y": "median_ns", "low": "low_ns", "high": "high_ns", "fit": "fitted_ns",
    "color": "in_flight,request_rate", "panel": "panel", "name": "metric",
}  # fmt: skip
FRONT = {one: one for one in ("x", "x_low", "x_high", "y", "y_low", "y_high", "label", "front")}
FRONT |= {"color": "engine", "panel": "panel"}


def curve_rows(prompts: tuple[int, ...] = (128, 1024, 8192), **columns: Any) -> pa.Table:
    """Two panels and three loads; the curve is 5 ms and 0.1 us for each token in flight."""
    rows = [
        {
            "panel": f"TP {tp}",
            "in_flight": load,
            "request_rate": None,
            "prompt_tokens": prompt,
            "metric": "tpot",
            "median_ns": 5e6 + 100.0 * load * prompt,
            "low_ns": 4.5e6,
            "high_ns": 5e6 + 100.0 * load * prompt + 1e3,
            "fitted_ns": 5e6 + 100.0 * load * prompt,
        }
        | columns
        for tp in (1, 2)
        for load in (64, 1, 8)
        for prompt in prompts
    ]
    return pa.Table.from_pylist(rows)


def spec_of(table: pa.Table, kind: str, channels: dict[str, str], width: int = 720) -> Any:
    return drawn(table, Chart(kind, channels), width=width).to_dict()


def panels_of(spec: Any) -> list[Any]:
    return [panel for row in spec["vconcat"] for panel in row["hconcat"]]


def marks(spec: Any, panel: Any, mark: str) -> list[tuple[Any, list[dict[str, Any]]]]:
    """The layers of a panel with that mark, and their rows."""
    return [
        (layer, spec["datasets"][layer["data"]["name"]])
        for layer in panel["layer"]
        if layer["mark"]["type"] == mark and "name" in layer["data"]
    ]


def test_every_point_is_a_dot_in_its_panel() -> None:
    spec = spec_of(curve_rows(), "curve", CURVE)
    panels = panels_of(spec)
    assert len(panels) == 2
    for panel in panels:
        ((layer, rows),) = marks(spec, panel, "point")
        assert [row["value"] for row in rows] == pytest.approx(
            [5 + 1e-4 * load * prompt for load in (64, 1, 8) for prompt in (128, 1024, 8192)]
        )
        assert layer["encoding"]["y"]["scale"] == panels[0]["layer"][-1]["encoding"]["y"]["scale"]
    titles = [marks(spec, panel, "point")[0][0]["encoding"]["y"]["title"] for panel in panels]
    assert titles == ["TPOT (ms)", None]


def test_the_line_is_the_fitted_curve_also_between_the_points() -> None:
    spec = spec_of(curve_rows(), "curve", CURVE)
    ((_, line),) = marks(spec, panels_of(spec)[0], "line")
    ((_, dots),) = marks(spec, panels_of(spec)[0], "point")
    for load in (1, 8, 64):
        own = [row for row in line if row["series"] == str(load)]
        (beside,) = {round(r["across"] / r["x"], 9) for r in dots if r["series"] == str(load)}
        assert len(own) > 20
        for place in own:
            tokens = place["across"] / beside
            assert place["y"] == pytest.approx(5 + 1e-4 * load * tokens)
        assert all(one["across"] < following["across"] for one, following in pairwise(own))


def test_without_a_curve_the_points_are_joined() -> None:
    spec = spec_of(curve_rows(fitted_ns=None), "curve", CURVE)
    ((_, line),) = marks(spec, panels_of(spec)[0], "line")
    assert len(line) == 9


@pytest.mark.slow
def test_loads_have_colours_in_order_and_stand_beside_each_other() -> None:
    spec = spec_of(curve_rows(), "curve", CURVE)
    ((layer, rows),) = marks(spec, panels_of(spec)[0], "point")
    colour = layer["encoding"]["color"]
    assert colour["scale"] == {"domain": ["1", "8", "64"], "range": in_order(3)}
    assert colour["legend"]["title"] == "requests in flight"
    assert (in_order(2), in_order(1)) == ([ORDER[0], ORDER[-1]], ORDER[:1])
    first = sorted((row["across"], row["series"]) for row in rows if row["x"] == 128)
    assert [series for _, series in first] == ["1", "8", "64"]
    low, high = layer["encoding"]["x"]["scale"]["domain"]
    assert all(low < row["across"] < high for row in rows)


def test_with_one_size_the_load_is_across() -> None:
    spec = spec_of(curve_rows(prompts=(1024,)), "curve", CURVE)
    ((layer, rows),) = marks(spec, panels_of(spec)[0], "point")
    assert sorted(row["x"] for row in rows) == [1, 8, 64]
    assert layer["encoding"]["x"]["title"] == "requests in flight, prompt tokens: 1,024"
    assert "color" not in layer["encoding"]


@pytest.mark.slow
def test_an_end_of_an_interval_that_its_dot_covers_is_not_drawn() -> None:
    spec = spec_of(curve_rows(), "curve", CURVE)
    ((_, rows),) = marks(spec, panels_of(spec)[0], "point")
    far = [row for row in rows if row["series"] == "64" and row["x"] == 8192]
    assert [row["low_stands_out"] for row in far] == [True]
    assert not any(row["high_stands_out"] for row in rows)  # 1 us above


@pytest.mark.slow
def test_one_repeat_has_no_interval_and_is_drawn() -> None:
    spec = spec_of(curve_rows(low_ns=None, high_ns=None), "curve", CURVE)
    ((_, rows),) = marks(spec, panels_of(spec)[0], "point")
    assert len(rows) == 9


def test_a_second_quantity_has_rings_and_the_axis_says_so() -> None:
    channels = {"x": "load", "y": "requests_per_second", "second": "good_requests_per_second"}
    table = pa.table(
        {
            "load": [1, 2, 4],
            "requests_per_second": [10.0, 20.0, 22.0],
            "good_requests_per_second": [10.0, 18.0, 0.0],
        }
    )
    spec = spec_of(table, "curve", channels)
    (panel,) = panels_of(spec)
    (dots, _), (_, rings) = marks(spec, panel, "point")
    assert dots["encoding"]["y"]["title"] == "requests per second: \u25cf all, \u25cb good"
    assert [row["second"] for row in rings] == [10, 18, 0]


def front_rows(*points: tuple[float, float, str]) -> pa.Table:
    rows = [
        {
            "x": x, "x_low": x * 0.98, "x_high": x * 1.02, "y": y, "y_low": y * 0.98,
            "y_high": y * 1.02, "label": f"load {n}", "front": front, "engine": f"TP {n % 2 + 1}",
            "panel": "128 in, 128 out",
        }
        for n, (x, y, front) in enumerate(points)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


def test_the_line_of_a_front_steps_from_one_undominated_median_to_the_next() -> None:
    table = front_rows(
        (10, 300, "on the front"),
        (100, 100, "on the front"),
        (50, 200, "undecided"),
        (40, 150, "dominated"),
        (100, 90, "dominated"),
    )
    spec = spec_of(table, "front", FRONT)
    (panel,) = panels_of(spec)
    ((_, steps),) = marks(spec, panel, "line")
    assert [(row["x"], row["y"]) for row in steps] == [
        (10, 300), (10, 200), (50, 200), (50, 100), (100, 100),
    ]  # fmt: skip
    ((layer, points),) = marks(spec, panel, "point")
    assert len(points) == 5
    assert layer["encoding"]["shape"]["scale"]["domain"] == [
        "on the front", "undecided", "dominated",
    ]  # fmt: skip
    shown = {row["label"] for row in points if row["shown"]}
    assert {"load 0", "load 1", "load 2"} <= shown


@pytest.mark.slow
def test_axes_of_all_panels_are_of_one_kind() -> None:
    far = front_rows((10, 300, "on the front"), (100, 290, "on the front"))
    near = front_rows((150, 310, "on the front"), (190, 300, "on the front"))
    names = pa.array(["a", "a", "b", "b", "c"])
    table = pa.concat_tables([far, near, near.slice(0, 1)]).set_column(9, "panel", names)
    encodings = [
        panel["layer"][-1]["encoding"] for panel in panels_of(spec_of(table, "front", FRONT))
    ]
    assert [one["x"]["scale"]["type"] for one in encodings] == ["log"] * 3
    assert ["type" in one["y"]["scale"] for one in encodings] == [False] * 3
    # An axis that is much shorter than a power of ten has values at even distances.
    assert encodings[1]["x"]["axis"]["values"] == [140, 160, 180, 200]


@pytest.mark.slow
@pytest.mark.parametrize(
    "width",
    [pytest.param(328, marks=pytest.mark.slow), 720, pytest.param(1200, marks=pytest.mark.slow)],
)
def test_panels_fit_the_width(width: int) -> None:
    table = pa.concat_tables([curve_rows(panel=f"engine {n}") for n in range(4)])
    spec = spec_of(table, "curve", CURVE, width=width)
    rows = [[panel["width"] for panel in row["hconcat"]] for row in spec["vconcat"]]
    assert [len(row) for row in rows] == {328: [1] * 4, 720: [2, 2], 1200: [2, 2]}[width]
    assert max(sum(row) for row in rows) < width
