"""Charts of comparisons: bars that add up, axes that say where they begin, and sure colors."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from repeats import OTHER_QUIET, side

from traceql.chart import palette
from traceql.chart.bar_labels import percent, signed
from traceql.chart.draw import drawn
from traceql.compare import Comparison
from traceql.query import Chart, Query
from traceql.resources import QUERIES

DIFFERENCE = Chart(
    "difference",
    {"x": "delta_ns", "y": "name", "base": "base_ns", "new": "new_ns", "verdict": "verdict"},
)


def parts(*rows: tuple[str, int, int, str | None]) -> pa.Table:
    """Rows of a waterfall: name, time in base, time in new, and verdict."""
    return pa.table(
        {
            "name": [name for name, *_ in rows],
            "base_ns": [base for _, base, *_ in rows],
            "new_ns": [new for _, _, new, _ in rows],
            "delta_ns": [new - base for _, base, new, _ in rows],
            "verdict": pa.array([verdict for *_, verdict in rows], pa.string()),
        }
    )


def spec_of(table: pa.Table, chart: Chart, width: int = 680) -> dict[str, Any]:
    spec: dict[str, Any] = drawn(table, chart, width=width).to_dict()
    return spec


def rows_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    datasets: list[list[dict[str, Any]]] = list(spec["datasets"].values())
    return max(datasets, key=len)


@pytest.fixture(scope="module")
def comparison() -> Iterator[Comparison]:
    """Of runs in which two roles take longer by a fourth."""
    longer = {"attention": 1.25, "gate_up_proj": 1.25}
    with Comparison(side(), side(OTHER_QUIET, roles=longer)) as opened:
        yield opened


def test_bars_lead_from_one_total_to_the_other() -> None:
    table = parts(("a", 2_000, 6_000, "slower"), ("b", 4_000, 1_000, "faster"), ("c", 7, 7, None))
    bars = rows_of(spec_of(table, DIFFERENCE))
    assert [(bar["name"], bar["start"], bar["end"], bar["kind"]) for bar in bars] == [
        ("base", 0, 6.007, "base"),
        ("a", 6.007, 10.007, "longer"),
        ("b", 10.007, 7.007, "shorter"),
        ("new", 0, 7.007, "new"),
    ]
    assert [bar["label"] for bar in bars] == [
        "6.01 µs",
        "+4.00 µs\u2002+67%",
        "\u22123.00 µs\u2002\u221250%",
        "7.01 µs\u2002+17%",
    ]


def test_what_is_within_the_noise_is_pale_and_the_legend_says_so() -> None:
    table = parts(("a", 50, 90, "slower"), ("b", 40, 10, "inconclusive"))
    spec = spec_of(table, DIFFERENCE)
    assert [bar["kind"] for bar in rows_of(spec)] == ["base", "longer", "shorter, not sure", "new"]
    (bars,) = (layer for layer in spec["layer"] if layer["mark"]["type"] == "bar")
    assert bars["encoding"]["color"]["legend"]["values"] == ["longer", "shorter, not sure"]


def test_small_differences_are_one_bar_that_keeps_the_sum() -> None:
    table = parts(("big", 0, 100_000, None), *((f"r{n}", n, 2 * n, None) for n in range(1, 30)))
    bars = rows_of(spec_of(table, DIFFERENCE))
    assert [bar["name"] for bar in bars] == ["base", "big", "29 others", "new"]
    assert bars[2]["delta"] == pytest.approx(0.435)
    assert bars[2]["end"] == pytest.approx(bars[3]["end"])


@pytest.mark.parametrize(("new", "is_cut"), [(1_040_000, True), (3_000_000, False)])
def test_an_axis_that_does_not_begin_at_zero_says_so(new: int, is_cut: bool) -> None:
    spec = spec_of(parts(("a", 1_000_000, new, None)), DIFFERENCE)
    (bars,) = (layer for layer in spec["layer"] if layer["mark"]["type"] == "bar")
    low, high = bars["encoding"]["x"]["scale"]["domain"]
    assert (low > 0) == is_cut
    assert high > new / 1e6
    assert (f"from {low:,.3f} ms on" in bars["encoding"]["x"]["title"]) == is_cut
    assert any(layer["mark"]["type"] == "point" for layer in spec["layer"]) == is_cut
    assert all(bar["start"] >= low for bar in rows_of(spec))


def test_without_a_difference_nothing_is_magnified() -> None:
    spec = spec_of(parts(("a", 1_000_000, 1_000_100, None)), DIFFERENCE)
    (bars,) = (layer for layer in spec["layer"] if layer["mark"]["type"] == "bar")
    assert bars["encoding"]["x"]["scale"]["domain"][0] == 0


@pytest.mark.slow
def test_bars_of_real_runs_add_up_to_the_nanosecond(comparison: Comparison) -> None:
    for scope in (*comparison.scopes, "all"):
        for by in ("role", "part"):
            rows = comparison.run("waterfall", scope=scope, by=by).rows()
            assert len({row["name"] for row in rows}) == len(rows) > 2
            sides = [comparison.run("steps", scope=scope, side=side) for side in ("base", "new")]
            base, new = (sum(row["ns"] for row in side) for side in sides)
            assert sum(row["base_ns"] for row in rows) == base
            assert sum(row["new_ns"] for row in rows) == new
            assert sum(row["delta_ns"] for row in rows) == new - base
    bars = rows_of(comparison.chart().to_dict())
    assert bars[-1]["end"] == pytest.approx(bars[-2]["end"])


def test_a_planted_difference_is_the_longest_bar_and_sure(comparison: Comparison) -> None:
    bars = {bar["name"]: bar["kind"] for bar in rows_of(comparison.chart().to_dict())}
    assert (bars["attention"], bars["gate_up_proj"]) == ("longer", "longer")
    roles = Query(QUERIES / "diff" / "roles.sql").head.chart
    assert roles
    shown = rows_of(spec_of(comparison.run("roles").arrow(), roles))
    assert {row["name"] for row in shown if row["kind"] == "longer"} == {
        "attention",
        "gate_up_proj",
    }
    assert {row["label"] for row in shown if row["kind"] == "longer"} == {"+25%"}


def test_both_steps_are_drawn_on_one_scale(comparison: Comparison) -> None:
    domains = []
    for one in ("base", "new"):
        spec = comparison.run("steps", side=one).chart(width=560).to_dict()
        (bars,) = (layer for layer in spec["layer"] if layer["mark"]["type"] == "bar")
        axis = bars["encoding"]["y"]["axis"]
        domains.append((bars["encoding"]["x"]["scale"]["domain"], axis["minExtent"]))
    assert domains[0] == domains[1]


def test_dots_say_which_side_lacks_a_role() -> None:
    table = pa.table({"role": ["a", "b", "c"], "base_ns": [0, 5, 8], "new_ns": [7, 0, 8]})
    chart = Chart("dumbbell", {"x": "base_ns,new_ns", "y": "role"})
    rows = rows_of(spec_of(table, chart))
    assert [(row["label"], row["kind"]) for row in rows] == [
        ("only new", "longer"),
        ("only base", "shorter"),
        ("0%", "equal"),
    ]


def test_a_change_has_its_interval_and_a_full_dot_where_there_is_a_verdict() -> None:
    table = pa.table(
        {
            "metric": ["step", "itl"], "change_pct": [-3.04, 1.0], "low_pct": [-4.0, None],
            "high_pct": [-2.0, None], "verdict": ["faster", "no verdict"],
        }
    )  # fmt: skip
    x = "change_pct,low_pct,high_pct"
    spec = spec_of(table, Chart("forest", {"x": x, "y": "metric", "color": "verdict"}))
    rows = rows_of(spec)
    assert [(row["label"], row["is_sure"]) for row in rows] == [
        ("\u22123.0%\u2002[\u22124.0, \u22122.0]", True),
        ("+1.0%", False),
    ]


def test_cells_are_as_far_from_base_as_the_layers_moved() -> None:
    table = pa.table({
        "layer": [0, 1] * 2, "role": ["act"] * 2 + ["rope"] * 2,
        "delta_ns": [-40.0, 60.0, 0.0, 1.0], "base_ns": [100.0] * 4,
    })  # fmt: skip
    chart = Chart("delta", {"x": "layer", "y": "role", "color": "delta_ns", "of": "base_ns"})
    spec = spec_of(table, chart)
    assert [row["delta_ns"] for row in rows_of(spec)] == [-40, 60, 0, 1]
    low, middle, high = spec["encoding"]["color"]["scale"]["domain"]
    assert (low, middle) == (-high, 0)
    assert spec["encoding"]["color"]["scale"]["range"] == palette.DIVERGING


def test_differences_are_written_as_people_write_them() -> None:
    assert [signed(value, 1) for value in (1.04, -0.26, -0.04)] == ["+1.0", "\u22120.3", "0"]
    assert [percent(share) for share in (0.25, 0.031, -0.5, 12.0)] == [
        "+25%",
        "+3.1%",
        "\u221250%",
        "\u00d713",
    ]
