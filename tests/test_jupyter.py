"""In Jupyter a result shows itself, and cells may be SQL."""

import sys
from collections.abc import Iterator
from typing import Any

import altair as alt
import databases
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import traceql
from traceql.result.chart.drawing import notebook_drawing
from traceql.result.chart.encodings import Drawn

_ABORTS = "import os, sys; sys.stdin.buffer.read(1); os.abort()"


@pytest.fixture(scope="module")
def trace() -> traceql.Run:
    return databases.trace("qwen3-8b-tp1-graph")


@pytest.fixture
def shell(trace: traceql.Run) -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance()
    shell.user_ns["mine"] = trace
    shell.extension_manager.load_extension("traceql")
    yield shell
    InteractiveShell.clear_instance()


def completed(shell: InteractiveShell, cell: str) -> set[str]:
    shell.Completer.use_jedi = False
    return {found.text for found in shell.Completer.completions(cell, len(cell))}


@pytest.mark.slow
def test_a_result_shows_its_chart_and_its_first_rows(trace: traceql.Run) -> None:
    result = trace.run("kernels.by_category")
    shown = result._repr_html_()
    assert "<svg" in shown
    assert "GPU time by category" in shown
    assert all(row["category"] in shown for row in result)
    sql = trace.sql("SELECT '<b>' || range AS name FROM range(100)")._repr_html_()
    assert "<svg" not in sql
    assert "&lt;b&gt;11" in sql
    assert "&lt;b&gt;12" not in sql
    assert "88 more rows" in sql


@pytest.mark.slow
def test_picture_and_rows_are_outputs_that_need_no_script(
    shell: InteractiveShell, trace: traceql.Run
) -> None:
    picture, rows = shown(shell, trace.run("kernels.by_category"))
    assert picture["image/svg+xml"].startswith("<svg")
    assert "text/html" not in picture
    assert "<td>gemm</td>" in rows["text/html"]
    assert "<svg" not in rows["text/html"]
    (rows,) = shown(shell, shell.run_cell_magic("traceql", "mine", "SELECT 1500000 AS total_ns"))
    assert ">1.500</td>" in rows["text/html"]


@pytest.fixture
def altairs_renderer() -> Iterator[None]:
    """Altair's own renderer before the test, and after it whatever the test enabled."""
    with alt.renderers.enable("default"):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("altairs_renderer")
def test_a_chart_is_a_picture_also_when_it_is_changed(trace: traceql.Run) -> None:
    chart = trace.run("kernels.by_category").chart()
    for one in (chart, chart.properties(height=90), chart.encode(opacity=alt.value(0.5))):
        bundle = mime_bundle(one)
        assert bundle.keys() == {"image/svg+xml", "text/plain"}
        assert "GPU time by category" in bundle["image/svg+xml"]


def mime_bundle(chart: Drawn) -> dict[str, Any]:
    bundle = chart._repr_mimebundle_()
    assert isinstance(bundle, dict)
    return bundle


def shown(shell: InteractiveShell, value: object) -> list[dict[str, str]]:
    """The outputs of a cell that ends in a value, by media type."""
    shell.display_formatter.active_types = shell.display_formatter.format_types
    with capture_output() as captured:
        shell.display_formatter.format(value)
    return [output.data for output in captured.outputs]


def test_a_cell_of_sql_gives_a_result(shell: InteractiveShell, trace: traceql.Run) -> None:
    expected = trace.sql("SELECT COUNT(*) AS n FROM step").rows()
    first = shell.run_cell_magic("traceql", "mine", "SELECT COUNT(*) AS n FROM step")
    assert first.rows() == expected
    assert shell.run_cell_magic("traceql", f"-o kept {trace.path}", "FROM step") is None
    assert len(shell.user_ns["kept"]) == expected[0]["n"]
    assert shell.run_cell_magic("traceql", "", "SELECT 7 AS n").rows() == [{"n": 7}]


def test_mistakes_say_the_next_step(shell: InteractiveShell) -> None:
    with pytest.raises(traceql.TraceqlError, match="name a database first"):
        shell.run_cell_magic("traceql", "", "SELECT 1")
    with pytest.raises(traceql.TraceqlError, match="kernels"):
        shell.run_cell_magic("traceql", "mine", "SELECT * FROM kernels")
    with pytest.raises(traceql.TraceqlError, match="-o needs a name"):
        shell.run_cell_magic("traceql", "mine -o", "SELECT 1")


@pytest.mark.filterwarnings("ignore::IPython.core.completer.ProvisionalCompleterWarning")
def test_tables_and_their_columns_are_completed(shell: InteractiveShell) -> None:
    shell.run_cell_magic("traceql", "mine", "SELECT 1")
    assert {"kernel", "kernel_metric"} <= completed(shell, "%%traceql\nFROM kern")
    columns = completed(shell, "%%traceql\nSELECT kernel.la")
    assert {"kernel.layer", "kernel.launch_id"} <= columns
    assert "kernel" not in completed(shell, "FROM kern")


@pytest.mark.slow
def test_a_crash_of_the_drawing_library_leaves_the_rows_and_the_next_picture(
    trace: traceql.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = trace.run("kernels.by_category")
    drawing = notebook_drawing()
    monkeypatch.setattr("traceql.result.chart.drawing.WORKER", (sys.executable, "-c", _ABORTS))
    drawing.close()  # ends the process that earlier tests have started
    shown = result._repr_html_()
    assert "no picture: the drawing library crashed (SIGABRT)" in shown
    assert "<svg" not in shown
    assert all(row["category"] in shown for row in result)
    monkeypatch.undo()
    assert "<svg" in result._repr_html_()
