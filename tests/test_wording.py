"""What screens call the devices of a run: NPUs on Ascend, also where two runs are compared."""

import re
from pathlib import Path

import ascend_like
import duckdb
import pytest
import traces
from command_line import called, output

import traceql
from traceql.database.terminology import terminology
from traceql.readers.dialects.registry import dialects, words

_MACRO = Path(traceql.__file__).parent / "sql" / "macros" / "text_for_dialect.sql"
_SENTENCE = "A CUDA runtime or driver call launches CUDA graphs on GPUs"


def npu_run(folder: Path, *, pause: int) -> Path:
    """Three tasks, each of which is launched after a pause of so many ns."""
    events = []
    for n in range(3):
        at = n * (100 + pause)
        events += [
            ascend_like.call(ts=at, dur=50, connection=n + 1),
            ascend_like.task("aclnnMm_MatMulV2", ts=at + 60, dur=40, connection=n + 1),
        ]
    ascend_like.write(folder / "in" / "w_1_2_ascend_pt", *events)
    traceql.load(folder / "in", folder / "run.duckdb")
    return folder / "run.duckdb"


def gpu_run(folder: Path) -> Path:
    traces.write(folder / "a.json", *(traces.kernel("gemm", ts=100 * n, dur=40) for n in range(3)))
    traceql.load(folder / "a.json", folder / "run.duckdb")
    return folder / "run.duckdb"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return (
        npu_run(tmp_path_factory.mktemp("base"), pause=400),
        npu_run(tmp_path_factory.mktemp("new"), pause=900),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("info", "NPU activities"),
        ("run overview.headlines", "percent of all NPU spans"),
        ("run step.waterfall", ""),
        ("run overview.recording", ""),
    ],
)
def test_a_screen_of_one_run_calls_its_devices_npus(
    command: str, said: str, runs: tuple[Path, Path]
) -> None:
    shown = output(*command.split(), runs[0])
    assert said in shown
    assert re.findall("GPU|CUDA", shown) == []


@pytest.mark.slow
def test_a_comparison_of_npus_speaks_of_npus(runs: tuple[Path, Path], tmp_path: Path) -> None:
    shown = called("diff", *runs, "--details").stdout.decode()
    assert called("diff", *runs, "--report", tmp_path / "diff.html").returncode == 0
    page = re.sub(r"<(style|script).*?</\1>|<[^>]*>", "", (tmp_path / "diff.html").read_text())
    assert "step, work of the NPU" in shown
    assert "(mean of the NPUs)" in shown
    assert [text for text in (shown, page) if "GPU" in text] == []


@pytest.mark.slow
def test_a_comparison_of_an_npu_with_a_gpu_speaks_of_gpus(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    with traceql.diff(runs[0], gpu_run(tmp_path)) as comparison:
        assert comparison.terminology(_SENTENCE) == _SENTENCE


@pytest.mark.parametrize("dialect", dialects())
def test_sql_and_python_have_the_same_words(dialect: str) -> None:
    with duckdb.connect() as con:
        con.execute(_MACRO.read_text())
        texts = [_SENTENCE, *words(dialect)]
        said = [
            con.execute("SELECT text_for_dialect(?, ?)", [dialect, one]).fetchone() for one in texts
        ]
    assert said == [(terminology([dialect])(one),) for one in texts]
