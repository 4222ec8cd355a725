"""A comparison as a page and in a notebook: the answer first, and nothing in it but text."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from repeats import EXAMPLE, OTHER_QUIET, run, side
from shared_files import shared_file

import traceql
from traceql.present.report.query_pages import write_comparison
from traceql.runs.compare import Comparison
from traceql.runs.compare.sentences import answers
from traceql.runs.compare.sides import RunProfile
from traceql.sql.query import Query
from traceql.util.resources import QUERIES

EVIL = "</script><script>alert(1)</script>"


def marked(runs: list[RunProfile]) -> list[RunProfile]:
    """The runs with markup in all names and texts."""
    found = []
    for one in runs:
        changed = dict(one.profile)
        for table, column in (("kernel_use", "name"), ("fact", "value")):
            rows, texts = changed[table], changed[table][column].to_pylist()
            # The dialect chooses the words of the page.
            marked = [text if text == "pytorch" else f"{EVIL}{text}" for text in texts]
            place = rows.schema.get_field_index(column)
            changed[table] = rows.set_column(place, column, [marked])
        found.append(RunProfile(f"{EVIL}{one.name}", one.database, changed))
    return found


@pytest.fixture(scope="module")
def comparison() -> Iterator[Comparison]:
    """Of runs in which a role, and so the step, take longer."""
    base, new = side(), side(OTHER_QUIET, roles={"gate_up_proj": 1.25})
    with Comparison(marked(base), marked(new)) as opened:
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
    tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page)  # the page needs nothing else
    assert [tag for tag in tags if re.search(r"(src|href)=\"(?!data:)", tag)] == []
    assert len(re.findall(r'id="([^"]+)"', page)) == len(set(re.findall(r'id="([^"]+)"', page)))


@pytest.mark.slow
def test_what_traces_say_is_no_markup(comparison: Comparison, page: str) -> None:
    assert f"{EVIL}NVIDIA" in plain(page)
    assert "<script>alert" not in page + comparison._repr_html_()


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
    bars: list[dict[str, Any]] = max(comparison.chart().to_dict()["datasets"].values(), key=len)
    assert bars[-1]["end"] == pytest.approx(bars[-2]["end"])
