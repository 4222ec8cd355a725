"""A comparison as a page and in a notebook: the answer first, and nothing in it but text."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from repeats import OTHER_QUIET, side
from scaled_runs import EXAMPLE, run
from shared_files import shared_file

import traceql
from traceql.present.report.query_pages import write_comparison
from traceql.result.chart.draw import drawn
from traceql.runs.compare import Comparison
from traceql.runs.compare.sentences import answers
from traceql.runs.compare.sides import RunProfile
from traceql.sql.query import Chart, Query
from traceql.util.resources import QUERIES

EVIL = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def comparison() -> Iterator[Comparison]:
    """Of runs in which a role, and so the step, take longer."""
    with Comparison(side(), side(OTHER_QUIET, roles={"gate_up_proj": 1.25})) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(comparison: Comparison) -> str:
    file = shared_file("comparison.html", lambda path: write_comparison(comparison, path))
    return file.read_text(encoding="utf-8")


def plain(html: str) -> str:
    """What a reader sees, in one line."""
    body = re.sub(r"(?s)<(script|style).*?</\1>", "", html)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body)))


@pytest.mark.slow
def test_the_answer_comes_first(comparison: Comparison, page: str) -> None:
    said = plain(page)
    first, *_ = answers(comparison)
    slower = r"Mixed steps are slower: [\d.]+ ms to [\d.]+ ms, run by run \+[45]\.\d%"
    assert re.match(slower, first.text)
    assert "gate_up_proj" in first.text
    assert said.index(first.text) < said.index("Change of each number")
    assert 'class="verdict slower"' in page


@pytest.mark.slow
def test_each_phase_has_its_figures(comparison: Comparison, page: str) -> None:
    assert comparison.scopes
    for scope in comparison.scopes:
        for figure in (f"waterfall-{scope}", f"steps-{scope}-base", f"steps-{scope}-new"):
            assert f'id="{figure}"' in page
    names = set(re.findall(r'id="define-([\w-]+)"', page))
    assert {"answer", "waterfall", "steps", "roles", "layers", "strata", "total"} <= names
    assert len(re.findall(r'id="([^"]+)"', page)) == len(set(re.findall(r'id="([^"]+)"', page)))


@pytest.mark.slow
def test_the_page_needs_nothing_else(page: str) -> None:
    tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page)
    assert [tag for tag in tags if re.search(r"(src|href)=\"(?!data:)", tag)] == []


@pytest.mark.slow
def test_what_traces_say_is_no_markup(tmp_path: Path) -> None:
    real = run(EXAMPLE)
    changed = dict(real.profile)
    for table, column in (("kernel_use", "name"), ("fact", "value")):
        rows = changed[table]
        texts = [f"{EVIL}{text}" for text in rows[column].to_pylist()]
        place = rows.schema.get_field_index(column)
        changed[table] = rows.set_column(place, column, [texts])
    evil = RunProfile(f"runs/{EVIL}", None, changed)
    with Comparison([real], [evil], accept=["all"]) as comparison:
        write_comparison(comparison, tmp_path / "page.html")
        shown = comparison._repr_html_()
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "alert(1)" in plain(page)
    assert "<script>alert" not in page + shown


@pytest.mark.slow
def test_a_notebook_shows_the_answer_in_words_as_rows_and_as_a_picture(
    comparison: Comparison,
) -> None:
    said, rows, picture = comparison._outputs()
    assert all(sentence.text in unescape(said["text/html"]) for sentence in answers(comparison))
    assert "slower" in rows["text/html"]
    assert picture["image/svg+xml"].startswith("<svg")
    assert "What made the step longer or shorter" in picture["image/svg+xml"]
    assert repr(comparison) == "<Comparison: 5 runs with 5 runs>"


def test_a_query_that_reads_databases_says_so_where_a_side_has_none() -> None:
    real = run(EXAMPLE)
    with Comparison([RunProfile("saved", None, real.profile)], [real]) as comparison:
        assert Query(QUERIES / "diff" / "efficiency.sql").head.reads == ("base", "new")
        with pytest.raises(traceql.TraceqlError, match="a baseline does not contain"):
            comparison.run("efficiency")
        assert len(comparison.run("roles"))


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
