"""Notebooks run from top to bottom on a bundled trace, and are committed without outputs."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


QUICK = "06_write_your_own_query"


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> nbformat.NotebookNode:
    return nbformat.read(request.param, as_version=4)


def test_it_is_committed_without_outputs(notebook: nbformat.NotebookNode) -> None:
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert [cell.outputs for cell in code] == [[] for _ in code]


def test_there_is_one_for_each_question() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "01_first_look",
        "02_layers_and_kernels",
        "03_overlap_and_idle",
        "04_tensor_parallel",
        "05_serving",
        "06_write_your_own_query",
    ]


def test_it_is_pointed_at_ones_own_run_in_one_line(notebook: nbformat.NotebookNode) -> None:
    lines = [line for cell in notebook.cells for line in cell.source.splitlines()]
    assert len([line for line in lines if line.startswith("trace = traceql.open(")]) == 1
    assert len([line for line in lines if "EXAMPLES /" in line]) == 1


@pytest.mark.parametrize(
    "notebook",
    [pytest.param(n, marks=[] if n.stem == QUICK else pytest.mark.slow) for n in NOTEBOOKS],
    ids=lambda path: path.stem,
    indirect=True,
)
def test_it_runs_and_shows_something_in_every_cell_that_ends_in_a_value(
    notebook: nbformat.NotebookNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code"
        and re.search(r"(\.df\(\)|\.chart\(\)|^(mine|trace)\.run\(.*\))$", cell.source)
    ]
    assert shown
    for cell in shown:
        assert [output.output_type for output in cell.outputs] == ["execute_result"], cell.source
        assert cell.outputs[0].data.keys() > {"text/plain"}, cell.source
