"""traceql experiment load, show and report, as they are typed."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import databases
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from written_results import WrittenPoint, latencies, write_results

from traceql.cli import cli
from traceql.errors import TraceqlError
from traceql.result.chart.draw import drawn
from traceql.sql.query import Chart


def _called(*words: object) -> Result:
    return CliRunner().invoke(cli, ["experiment", *map(str, words)])


def _said(ttft: float, tpot: float, rate: float) -> dict[str, float]:
    return latencies(ttft=ttft, tpot=tpot, e2el=ttft + 15 * tpot) | {"output_throughput": rate}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """TP 1 and 2 at two batches, five repeats each; one point failed once, one was left out."""
    points = [
        WrittenPoint([_said(20, 10 + n / 10, 100) for n in range(5)], batch=1),
        WrittenPoint([_said(40, 12, 1_200)] * 5, batch=16),
        WrittenPoint([_said(15, 6 + n / 10, 160) for n in range(5)], batch=1, tp=2),
        WrittenPoint([_said(30, 8, 1_800)] * 4 + [None], batch=16, tp=2),
        WrittenPoint(batch=1, tp=3, skipped="TP 3 does not divide 32 attention heads"),
    ]
    return write_results(tmp_path / "tp", points, question="What does <TP 2> gain?")


def test_the_answer_comes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = _called("show", folder)
    assert shown.exit_code == 0, shown.output
    first, *others = shown.stdout.splitlines()
    assert first == "! 4 points, 19 of 20 repeats complete (1 failed); 1 point left out."
    assert (
        "  Lowest TPOT of qwen3-8b: 6.20 ms (6.00 ms to 6.40 ms, 94% interval of 5 repeats), TP 2, "
        "1 in flight, prompts of 128, 16 generated."
    ) in others
    # 1,200 tokens/s on one GPU are more than 1,800 on two.
    assert any("per second and GPU of qwen3-8b: 1,200 (" in line for line in others)
    # Of the two batches, 10.2 / 6.2 = 1.645 and 12 / 8 = 1.5.
    (tpot,) = (line for line in others if "TPOT of qwen3-8b with TP 2 against TP 1" in line)
    assert "1.57 times as fast in the median of 2 points (1.50 to 1.65)" in tpot
    assert "an efficiency of 79%" in tpot
    assert "TP 3 does not divide 32 attention heads" in shown.stdout
    assert "out of GPU memory" in shown.stdout


def test_few_repeats_and_first_looks_are_marked(tmp_path: Path) -> None:
    three = [WrittenPoint([_said(20, 10, 100)] * 3, batch=1)]
    shown = _called("show", write_results(tmp_path / "three", three, gates=False)).stdout
    assert "! Some points have 3 repeats: their intervals have a confidence of" in shown
    assert "! three is exploratory: its plan is not for gates." in shown
    one = [WrittenPoint([_said(20, 10, 100)], batch=1)]
    shown = _called("show", write_results(tmp_path / "one", one)).stdout
    assert "! Some points have one repeat" in shown
    assert "(one repeat)" in shown
    begun = [*one, WrittenPoint(batch=2)]
    shown = _called("show", write_results(tmp_path / "begun", begun, repeats=2)).stdout
    assert shown.startswith("! 2 points, 1 of 4 repeats complete (3 missing).")


@pytest.mark.slow
def test_queries_and_statements_are_answered_in_all_formats(folder: Path, tmp_path: Path) -> None:
    database = tmp_path / "tp.duckdb"
    loaded = _called("load", folder, "-o", database)
    assert loaded.exit_code == 0
    assert f"traceql experiment show {database}" in loaded.stderr
    listed = json.loads(_called("show", "--query", "list", "--format", "json").stdout)
    charts = {row["query"]: row["chart"] for row in listed}
    assert (charts["latency"], charts["throughput"], charts["failures"]) == ("curve", "front", None)
    words = ("show", database, "--query", "latency", "--param", "metric=ttft")
    rows = json.loads(_called(*words, "--format", "json").stdout)
    assert [row["median_ns"] for row in rows] == [20e6, 40e6, 15e6, 30e6]
    asked = _called(
        "show", database, "--sql", "SELECT COUNT(*) AS n FROM repeat", "--format", "csv"
    )
    assert asked.stdout == "n\n20\n"
    picture = tmp_path / "ttft.svg"
    assert _called(*words, "--chart", picture).exit_code == 0
    assert picture.read_text().startswith("<svg")


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
def test_the_page_has_the_question_the_answer_and_what_is_missing(
    folder: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert _called("report", folder, "-o", page).exit_code == 0
    html = page.read_text()
    assert "What does &lt;TP 2&gt; gain?" in html
    assert "19 of 20 repeats complete" in html
    for section in ("latency", "throughput", "scaling", "failures", "set-up", "definitions"):
        assert f'<section id="{section}">' in html
    assert "TP 3 does not divide 32 attention heads" in html
    assert 'src="http' not in html
    assert "One row per" not in html.split('<section id="definitions">')[0]
    assert ">experiment</th>" not in html


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["show"], 2, "name a folder of results, or their database"),
        (["show", "nowhere"], 1, "nowhere does not exist; use a folder of results"),
        (["show", "tp", "--query", "latncy"], 1, "did you mean 'latency'"),
        (["show", "tp", "--query", "latency", "--param", "metric"], 2, "write NAME=VALUE"),
        (["show", "tp", "--sql", "SELECT 1", "--param", "a=1"], 2, "--param needs --query"),
        (["show", "tp", "--sql", "DROP TABLE point"], 1, "results can only be read"),
        (["show", "trace.duckdb"], 1, "is a database of traces; load results with traceql exp"),
        (["load", "tp", "-o", "trace.duckdb"], 1, "trace.duckdb is a database of traces"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], status: int, line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    trace = databases.trace("qwen3-8b-tp1-graph").path
    Path("trace.duckdb").write_bytes(trace.read_bytes())
    before = sorted(Path().iterdir())
    done = _called(*words)
    assert done.exit_code == status
    told = done.stderr.splitlines()[-1] if status == 2 else str(done.exception)
    assert line in told
    assert "\n" not in told
    assert isinstance(done.exception, SystemExit if status == 2 else TraceqlError)
    assert not done.stdout
    assert sorted(Path().iterdir()) == before
    assert Path("trace.duckdb").read_bytes() == trace.read_bytes()


CURVE = {
    "x": "prompt_tokens", "y": "median_ns", "low": "low_ns", "high": "high_ns", "fit": "fitted_ns",
    "color": "in_flight,request_rate", "panel": "panel", "name": "metric",
}  # fmt: skip


def marks(spec: Any, panel: Any, mark: str) -> list[tuple[Any, list[dict[str, Any]]]]:
    """The layers of a panel with that mark, and their rows."""
    return [
        (layer, spec["datasets"][layer["data"]["name"]])
        for layer in panel["layer"]
        if layer["mark"]["type"] == mark and "name" in layer["data"]
    ]


def test_every_point_is_a_dot_and_the_line_is_the_fitted_curve_also_between_them() -> None:
    """Two panels and three loads; the curve is 5 ms and 0.1 us for each token in flight."""
    loads = [(load, prompt) for load in (64, 1, 8) for prompt in (128, 1024, 8192)]
    rows = [
        {
            "panel": f"TP {tp}", "in_flight": load, "request_rate": None, "prompt_tokens": prompt,
            "metric": "tpot", "low_ns": 4.5e6, "median_ns": 5e6 + 100.0 * load * prompt,
            "high_ns": 5e6 + 100.0 * load * prompt + 1e3,
            "fitted_ns": 5e6 + 100.0 * load * prompt,
        }
        for tp in (1, 2)
        for load, prompt in loads
    ]  # fmt: skip
    spec: Any = drawn(pa.Table.from_pylist(rows), Chart("curve", CURVE), width=720).to_dict()
    panels = [panel for row in spec["vconcat"] for panel in row["hconcat"]]
    assert len(panels) == 2
    for panel in panels:
        ((layer, dots),) = marks(spec, panel, "point")
        values = [5 + 1e-4 * load * prompt for load, prompt in loads]
        assert [row["value"] for row in dots] == pytest.approx(values)
        assert layer["encoding"]["y"]["scale"] == panels[0]["layer"][-1]["encoding"]["y"]["scale"]
    ((_, line),) = marks(spec, panels[0], "line")
    for load in (1, 8, 64):
        own = [row for row in line if row["series"] == str(load)]
        (beside,) = {round(r["across"] / r["x"], 9) for r in dots if r["series"] == str(load)}
        assert len(own) > 20
        for place in own:
            tokens = place["across"] / beside
            assert place["y"] == pytest.approx(5 + 1e-4 * load * tokens)
        assert all(one["across"] < following["across"] for one, following in pairwise(own))
