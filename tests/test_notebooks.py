"""Notebooks are committed with their outputs, which are those of an execution without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from no_network import no_network

from traceql.runs.experiment.experiment import experiment_queries
from traceql.sql.query import catalog

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PICTURE = "image/svg+xml"
_QUERY = re.compile(r'\b(run|mine|results)\.query\("([\w.]+)"')
_BLOCK = """
import socket

def refuse(self, address):
    raise OSError("the network is cut off")

socket.socket.connect = socket.socket.connect_ex = refuse
"""


def code_cells(path: Path) -> list[Any]:
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def ends_in_a_chart(cell: Any) -> bool:
    """Whether the last line of a cell is a chart, or a result whose query declares one."""
    *_, last = cell.source.splitlines()
    found = _QUERY.match(last)
    if not found or last.endswith(".df()"):
        return ".chart()" in last or "alt.Chart(" in cell.source
    asked, name = found.groups()
    queries = experiment_queries() if asked == "results" else catalog()
    return name not in queries or queries[name].head.chart is not None


def texts(cell: Any) -> list[Any]:
    """The outputs without pictures, whose every digit may differ with the drawing library."""
    return [
        (output.output_type, {kind: text for kind, text in output.data.items() if kind != PICTURE})
        if "data" in output
        else output
        for output in cell.outputs
    ]


def pictures(cell: Any) -> list[str]:
    return [output.data[PICTURE] for output in cell.outputs if PICTURE in output.get("data", {})]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_it_is_pointed_at_ones_own_run_in_one_line(notebook: Path) -> None:
    lines = [line for cell in code_cells(notebook) for line in cell.source.splitlines()]
    opened = ("run = traceql.open(", "comparison = traceql.diff(", "results = traceql.experiment(")
    assert len([line for line in lines if line.startswith(opened)]) == 1
    # Beside it, the notebook of experiments looks at another example.
    beside = "two = traceql.experiment(EXAMPLES /"
    found = [line for line in lines if "EXAMPLES /" in line and not line.startswith(beside)]
    assert len(found) == 1


def test_every_chart_is_committed_as_a_picture_that_needs_nothing_else(notebook: Path) -> None:
    charts = [cell for cell in code_cells(notebook) if ends_in_a_chart(cell)]
    assert charts
    for cell in charts:
        (picture,) = pictures(cell)
        assert picture.startswith("<svg")
        assert len(re.findall("<path|<rect|<text", picture)) > 10, cell.source
    shown = re.sub(r'xmlns(:\w+)?="[^"]*"', "", notebook.read_text().replace('\\"', '"'))
    assert "http://" not in shown
    assert "https://" not in shown
    assert "<script" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem, indirect=True)
def test_without_a_network_it_gives_the_outputs_that_are_committed(
    notebook: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_BLOCK)
    path = os.pathsep.join([str(tmp_path), str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [*no_network(), sys.executable, FOLDER / "execute.py", notebook, "-o", tmp_path],
        env=os.environ | {"PYTHONPATH": path, "IPYTHONDIR": str(tmp_path / "ipython")},
        check=True,
    )
    now, then = code_cells(tmp_path / notebook.name), code_cells(notebook)
    for cell, committed in zip(now, then, strict=True):
        assert not [output for output in cell.outputs if output.output_type == "error"]
        assert len(pictures(cell)) == len(pictures(committed)) >= ends_in_a_chart(cell), cell.source
        assert texts(cell) == texts(committed), f"run make notebooks: {cell.source}"
