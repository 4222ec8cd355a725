"""The report is one page that stands alone, says what the queries say, and leads with findings."""

import csv
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from shlex import quote

import databases
import pytest
from command_line import called, refusal
from shared_files import shared_file

import traceql
from traceql.present.report.answers import answers
from traceql.present.report.run_report import findings, page
from traceql.present.report.sections import RUN_SECTIONS
from traceql.present.ui.place import place_of_finding
from traceql.util.files import replace_file

_FOUND = """\
-- One row per finding.
-- @chart none
SELECT 1 AS rank_order, 'severe' AS severity, 'Rank 3 is late by 5 <b>ms</b>' AS headline,
    ['It waits.'] AS evidence, 'comm.skew' AS query, MAP {'rank': '3'} AS parameters,
    'pin its host' AS remedy, NULL AS saving_ns, NULL AS gain_pct, NULL AS unknowns, NULL AS ts
"""
_STRANGE = """\
-- One row per thing that a page must not believe.
-- @chart bar x=total_ns y=name
SELECT '<script>alert(1)</script>' AS name, 7 AS total_ns
"""


class _Page(HTMLParser):
    """Tags with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries")
    (folder / "overview.findings.sql").write_text(_FOUND)
    (folder / "comm.strange.sql").write_text(_STRANGE)
    return folder


@pytest.fixture(scope="module")
def trace(queries: Path) -> Iterator[traceql.Run]:
    path = databases.trace("qwen3-32b-tp4-graph-nccl").path
    with traceql.Run(path, queries=[queries]) as opened:
        yield opened


@pytest.fixture(scope="module")
def html(trace: traceql.Run) -> str:
    file = shared_file("report.html", lambda path: replace_file(path, page(trace).encode()))
    return file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_links_lead_to_places_inside_the_page_alone(html: str) -> None:
    assert len(html) < 5_000_000
    tags = _Page(html).tags
    references = ("src", "href", "xlink:href", "srcset", "data", "action")
    links = {of[name] or "" for _, of in tags for name in references if name in of}
    assert links
    assert all(link.startswith(("#", "data:,")) for link in links)
    assert set(re.findall(r"https?://[^\s\"'<)]+", html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\((?!#)", html)
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    painted = {f"#{name}" for name in re.findall(r"url\(#([^)]+)\)", html)}
    assert painted
    assert {link for link in links if link[0] == "#"} | painted <= {f"#{name}" for name in ids}


@pytest.mark.slow
def test_findings_lead_and_sections_without_rows_are_left_out(html: str) -> None:
    sections = [attributes.get("id") for tag, attributes in _Page(html).tags if tag == "section"]
    order = [section.name for section in RUN_SECTIONS]
    without_rows = ("counters", "profile", "memory", "serving")
    assert sections == [name for name in [*order, "definitions"] if name not in without_rows]
    assert html.index("Rank 3 is late") < html.index("Where each rank")


@pytest.mark.slow
def test_tables_hold_the_rows_to_the_last_digit(html: str, trace: traceql.Run) -> None:
    figure = re.search(r'<figure id="time-breakdown".*?</figure>', html, re.DOTALL)
    assert figure
    shown = [int(v) for v in re.findall(r'data-v="(\d+)"', figure[0])]
    kernels = trace.sql("SELECT MAX(ts + dur) - MIN(ts) AS ns FROM kernel GROUP BY rank").rows()
    assert {row["ns"] for row in kernels} <= set(shown)
    assert "176.176" in figure[0]


@pytest.mark.slow
def test_what_a_trace_says_is_never_markup(html: str) -> None:
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "late by 5 &lt;b&gt;ms" in html


@pytest.mark.slow
def test_command_line_writes_a_page_or_the_same_facts_as_data(
    trace: traceql.Run, queries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = called("report", trace.path, "--queries", queries, "--format", "csv")
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    folder = tmp_path / "report"
    document = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    answers = {answer["name"]: answer for answer in document["answers"]}
    assert {file.stem for file in folder.glob("*.csv")} == answers.keys()
    assert {"overview.findings", "layers.breakdown", "comm.strange"} <= answers.keys()
    expected = trace.query("time.breakdown").rows()
    assert answers["time.breakdown"]["rows"] == expected
    with (folder / "time.breakdown.csv").open(encoding="utf-8") as file:
        idle = [int(row["idle_ns"]) for row in csv.DictReader(file)]
    assert idle == [row["idle_ns"] for row in expected]


@pytest.mark.slow
def test_a_finding_leads_to_its_figure_and_to_its_place_in_the_trace() -> None:
    trace = databases.trace("qwen3-32b-tp4-graph-nccl")
    found = list(answers(trace))
    answer = next(one for one in found if one.query.name == "overview.findings")
    html = findings(answer, quote("run 1.duckdb"), {one.query.name: one for one in reversed(found)})
    figures = {one.query.name: one for one in found}
    placed, shown = next(
        (row, figures[row["query"]])
        for row in answer.result
        if row["ts"] is not None and row["query"] in figures
    )
    number = placed["rank_order"]
    assert f'<a href="#{shown.anchor}"' in html
    assert f"<code>traceql ui &#x27;run 1.duckdb&#x27; --finding {number}</code>" in html
    assert place_of_finding(trace, number).ts == placed["ts"]
    with pytest.raises(traceql.TraceqlError, match="no finding 99; list the findings"):
        place_of_finding(trace, 99)


def test_a_database_is_never_replaced(tmp_path: Path) -> None:
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes(databases.trace("qwen3-8b-tp1-graph").path.read_bytes())
    for format_ in ("html", "json"):
        assert "is a database" in refusal("report", copy, "--format", format_, "-o", copy)
    assert traceql.open(copy).sql("SELECT COUNT(*) AS n FROM kernel").rows()[0]["n"] > 0


@pytest.mark.slow
def test_a_chart_that_cannot_be_drawn_leaves_the_page_and_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "comm.wrong.sql").write_text(
        "-- One row.\n-- @chart bar x=none y=name\nSELECT 'a' || chr(27) AS name, 5 AS dur\n"
    )
    monkeypatch.setattr("traceql.result.chart.drawing.WORKER", ("sh", "-c", "kill -ABRT $$"))
    path = databases.trace("qwen3-8b-tp1-graph").path
    with traceql.Run(path, queries=[tmp_path]) as trace:
        html = page(trace)
    assert "No picture: the chart needs column &#x27;none&#x27;; correct the line @chart." in html
    assert r"<td>a\x1b</td>" in html
    assert "No picture: the drawing library crashed (SIGABRT)." in html
    assert "<svg" not in html
    with traceql.open(path) as trace:
        assert all(row["category"] in html for row in trace.query("kernels.by_category"))
