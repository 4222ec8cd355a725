"""The report is one page that stands alone, says what the queries say, and leads with findings."""

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from shlex import quote

import databases
import pytest
from command_line import called, refusal
from shared_files import shared_file

import traceql
from traceql.analysis.findings.catalog import nothing_found
from traceql.present.report.answers import answers
from traceql.present.report.run_report import findings, no_findings, page
from traceql.present.report.sections import RUN_SECTIONS
from traceql.present.ui.place import place_of_finding
from traceql.util.files import replace_file

_FOUND = """\
-- One row per finding.
-- @chart none
SELECT 1 AS rank_order, 'severe' AS severity, 'Rank 3 is late by 5 <b>ms</b>' AS finding,
    5.0 AS value, 'ms' AS unit, 'comm.skew' AS query, MAP {'rank': '3'} AS parameters,
    'pin its host' AS advice, NULL AS saving_ns, NULL AS ts
"""
_STRANGE = """\
-- One row per thing that a page must not believe.
-- @chart bar x=total_ns y=name
SELECT '<script>alert(1)</script>' AS name, 7 AS total_ns
"""


class _Page(HTMLParser):
    """Tags with their attributes, and text by tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self._open = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self._open = tag

    def handle_data(self, data: str) -> None:
        self.text.setdefault(self._open, []).append(data)

    def ids(self, tag: str) -> list[str | None]:
        return [attributes.get("id") for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries")
    (folder / "overview.findings.sql").write_text(_FOUND)
    (folder / "comm.strange.sql").write_text(_STRANGE)
    return folder


@pytest.fixture(scope="module")
def trace(queries: Path) -> Iterator[traceql.Trace]:
    path = databases.trace("qwen3-32b-tp4-graph-nccl").path
    with traceql.Trace(path, queries=[queries]) as opened:
        yield opened


@pytest.fixture(scope="module")
def html(trace: traceql.Trace) -> str:
    file = shared_file("report.html", lambda path: replace_file(path, page(trace).encode()))
    return file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_it_refers_to_nothing_outside(html: str) -> None:
    assert len(html) < 5_000_000
    links = {
        value
        for _, attributes in _Page(html).tags
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href", "srcset", "data", "action")
    }
    assert links
    assert all(link and link.startswith(("#", "data:,")) for link in links)
    assert set(re.findall(r"https?://[^\s\"'<)]+", html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\((?!#)", html)


@pytest.mark.slow
def test_every_link_inside_the_page_leads_somewhere(html: str) -> None:
    found = _Page(html)
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {attributes.get("href") for tag, attributes in found.tags if tag == "a"}
    painted = {f"#{name}" for name in re.findall(r"url\(#([^)]+)\)", html)}
    assert links
    assert painted
    assert {link for link in links if link} | painted <= {f"#{name}" for name in ids}


@pytest.mark.slow
def test_findings_lead_and_sections_without_rows_are_left_out(html: str) -> None:
    sections = _Page(html).ids("section")
    order = [section.name for section in RUN_SECTIONS]
    without_rows = ("counters", "profile", "memory", "serving")
    assert sections == [name for name in [*order, "definitions"] if name not in without_rows]
    assert html.index("Rank 3 is late") < html.index("Where each rank")


@pytest.mark.slow
def test_tables_hold_the_rows_to_the_last_digit(html: str, trace: traceql.Trace) -> None:
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
def test_charts_have_a_text_alternative_and_colours_of_the_page(html: str) -> None:
    pictures = [attributes for tag, attributes in _Page(html).tags if tag == "svg"]
    assert len(pictures) > 30
    assert all(p["role"] == "img" and "table" in str(p["aria-label"]) for p in pictures)
    (drawing,) = re.findall(r'<figure id="time-breakdown".*?</svg>', html, re.DOTALL)
    assert 'fill="var(--paper)"' in drawing
    assert "#1f2328" not in drawing


_MEASURE = """
<script>
  const head = [...document.querySelectorAll("#time-breakdown th")].find(
    (th) => th.textContent.startsWith("exposed comm"));
  const values = () => [...head.closest("table").tBodies[0].rows].map(
    (row) => row.cells[head.cellIndex].dataset.v).join(" ");
  head.click();
  const falling = values();
  head.click();
  const narrow = document.querySelector("#time-breakdown .narrow");
  document.body.dataset.seen = JSON.stringify({
    falling, rising: values(),
    overflow: document.documentElement.scrollWidth - innerWidth,
    narrow: getComputedStyle(narrow).display,
    paper: getComputedStyle(document.documentElement).getPropertyValue("--paper"),
  });
</script>
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "dark", "paper", "narrow"),
    [(500, False, "#ffffff", "block"), (1600, True, "#16191d", "none")],
)
def test_it_opens_from_disk_without_a_network_or_an_error(
    html: str, trace: traceql.Trace, tmp_path: Path, width: int, dark: bool, paper: str, narrow: str
) -> None:
    file = tmp_path / "report.html"
    file.write_text(html.replace("</body>", f"{_MEASURE}</body>"), encoding="utf-8")
    document, said = opened(file, width=width, dark=dark)
    assert said == []
    (body,) = (attributes for tag, attributes in _Page(document).tags if tag == "body")
    seen = json.loads(str(body["data-seen"]))
    exposed = sorted(row["exposed_comm_ns"] for row in trace.run("time.breakdown"))
    assert seen["rising"] == " ".join(map(str, exposed))
    assert seen["falling"] == " ".join(map(str, reversed(exposed)))
    assert seen["overflow"] <= 0
    assert (seen["paper"].strip(), seen["narrow"]) == (paper, narrow)


@pytest.mark.slow
def test_command_line_writes_a_page_or_the_same_facts_as_data(
    trace: traceql.Trace, queries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = called("report", trace.path, "--queries", queries, "--format", "csv")
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    folder = tmp_path / "report"
    document = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    answers = {answer["name"]: answer for answer in document["answers"]}
    assert {file.stem for file in folder.glob("*.csv")} == answers.keys()
    assert {"overview.findings", "layers.breakdown", "comm.strange"} <= answers.keys()
    expected = trace.run("time.breakdown").rows()
    assert answers["time.breakdown"]["rows"] == expected
    with (folder / "time.breakdown.csv").open(encoding="utf-8") as file:
        assert [int(row["idle_ns"]) for row in csv.DictReader(file)] == [
            row["idle_ns"] for row in expected
        ]


def test_no_findings_are_said_so(tmp_path: Path) -> None:
    head, _, _ = _FOUND.partition("SELECT")
    (tmp_path / "overview.findings.sql").write_text(f"{head}SELECT 1 AS rank_order WHERE FALSE")
    path = databases.trace("qwen3-8b-tp1-graph").path
    with traceql.Trace(path, queries=[tmp_path]) as trace:
        found = next(a for a in answers(trace) if a.query.name == "overview.findings")
        told = no_findings(found, nothing_found(trace))
    assert "No findings: no number reaches its threshold" in told


@pytest.mark.slow
def test_a_finding_leads_to_its_figure_and_to_its_place_in_the_trace() -> None:
    trace = databases.trace("qwen3-8b-tp1-graph")
    found = list(answers(trace))
    answer = next(one for one in found if one.query.name == "overview.findings")
    html = findings(answer, quote("run 1.duckdb"), {one.query.name: one for one in reversed(found)})
    lost = next(row for row in answer.result if row["query"] == "time.lost")
    number = lost["rank_order"]
    assert '<a href="#time-lost">Lost time by phase</a>' in html
    title = "Time below the roofline by role"
    assert f'<a href="#efficiency-roles" data-phase="decode">{title}</a>' in html
    assert f"<code>traceql ui &#x27;run 1.duckdb&#x27; --finding {number}</code>" in html
    assert place_of_finding(trace, number).ts == lost["ts"]
    with pytest.raises(traceql.TraceqlError, match="no finding 99; list the findings"):
        place_of_finding(trace, 99)


def test_a_finding_without_a_place_or_a_figure_has_its_command_alone(trace: traceql.Trace) -> None:
    answer = next(one for one in answers(trace) if one.query.name == "overview.findings")
    html = findings(answer, "run.duckdb", {})
    assert "traceql run comm.skew run.duckdb --rank 3" in html
    assert "<a " not in html
    assert "traceql ui" not in html


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
    with traceql.Trace(path, queries=[tmp_path]) as trace:
        html = page(trace)
    assert "No picture: the chart needs column &#x27;none&#x27;; correct the line @chart." in html
    assert r"<td>a\x1b</td>" in html
    assert "No picture: the drawing library crashed (SIGABRT)." in html
    assert "<svg" not in html
    assert all(row["category"] in html for row in trace_rows(path))


def trace_rows(path: Path) -> list[dict[str, str]]:
    with traceql.Trace(path) as trace:
        return trace.run("kernels.by_category").rows()


# --- headless Chromium, without a network --------------------------------------------------------


_NAMES = ("chromium", "chromium-browser", "google-chrome")


def opened(page: Path, *, width: int, dark: bool) -> tuple[str, list[str]]:
    """The page's document after its scripts have run, and what its console said.

    Skips the test where no Chromium is installed.
    """
    browser = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no Chromium")
    done = subprocess.run(
        [
            browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--window-size={width},900",
            f"--user-data-dir={page.parent / f'browser-{width}'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, said
