"""Charts of comparisons: bars that add up, axes that say where they begin, and sure colors."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from repeats import OTHER_QUIET, side

from traceql.result.chart.draw import drawn
from traceql.runs.compare import Comparison
from traceql.sql.query import Chart

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


def test_small_differences_are_one_bar_that_keeps_the_sum() -> None:
    table = parts(("big", 0, 100_000, None), *((f"r{n}", n, 2 * n, None) for n in range(1, 30)))
    bars = rows_of(spec_of(table, DIFFERENCE))
    assert [bar["name"] for bar in bars] == ["base", "big", "29 others", "new"]
    assert bars[2]["delta"] == pytest.approx(0.435)
    assert bars[2]["end"] == pytest.approx(bars[3]["end"])


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
