"""Charts of experiments: each point is drawn with its interval, and lines go where they should."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from traceql.result.chart.draw import drawn
from traceql.sql.query import Chart

CURVE = {
    "x": "prompt_tokens", "y": "median_ns", "low": "low_ns", "high": "high_ns", "fit": "fitted_ns",
    "color": "in_flight,request_rate", "panel": "panel", "name": "metric",
}  # fmt: skip


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


def test_with_one_size_the_load_is_across() -> None:
    spec = spec_of(curve_rows(prompts=(1024,)), "curve", CURVE)
    ((layer, rows),) = marks(spec, panels_of(spec)[0], "point")
    assert sorted(row["x"] for row in rows) == [1, 8, 64]
    assert layer["encoding"]["x"]["title"] == "requests in flight, prompt tokens: 1,024"
    assert "color" not in layer["encoding"]
