"""What people read in a terminal of any width: nothing is wider, and no sentence loses its end."""

import re
from collections.abc import Iterator
from pathlib import Path

import databases
import pyarrow as pa
import pytest
from command_line import called, output
from databases import EXAMPLES
from shared_files import shared_file

import traceql
from traceql.cli.output import print_table
from traceql.result import Result
from traceql.result.text_table.columns import display_columns
from traceql.result.text_table.layout import layout
from traceql.result.text_table.values import is_sentence, places
from traceql.sql.query import shipped_queries

pytestmark = pytest.mark.slow

WIDTHS = (60, 80, 120, 200)
QUERIES = list(shipped_queries())
_LIMITED = [
    name for name, query in shipped_queries().items()
    if any(parameter.is_limit for parameter in query.head.parameters)
]  # fmt: skip
_KERNEL = (
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, 0>"
    "(__nv_bfloat16 const*, long const*, long, long, int, int, float const*)"
)
_SENTENCE = (
    "Rank 0 is late: rank 1 waited 486.4 ms in collectives, 79% of it for rank 0, whose host "
    "was in ## Call CompiledFxGraph fywgfkixlhjxjjvnrw265qfsrnws2uyl7mt6seok4bim7khhc6z5 ## then."
)


def chat() -> Path:
    """A database with requests and findings."""
    run = EXAMPLES / "qwen3-8b-tp2-serving"
    return shared_file("chat.duckdb", lambda path: traceql.load(run, path))


@pytest.fixture(scope="module", params=["4 ranks", "requests and findings"])
def trace(request: pytest.FixtureRequest) -> Iterator[traceql.Run]:
    four_ranks = databases.trace("qwen3-32b-tp4-graph-nccl").path
    with traceql.open(four_ranks if request.param == "4 ranks" else chat()) as opened:
        yield opened


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database in the current folder, so that its path is short."""
    (tmp_path / "run.duckdb").symlink_to(chat())
    monkeypatch.chdir(tmp_path)
    return Path("run.duckdb")


@pytest.mark.parametrize("name", QUERIES)
def test_no_line_is_wider_and_no_sentence_is_cut(
    name: str,
    trace: traceql.Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = trace.query(name).head(60)
    keys = trace.queries[name].head.keys
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(result, keys=keys, all_columns="--wide shows all")
        printed, notes = capsys.readouterr()
        assert all(places(line) <= width for line in (printed + notes).splitlines())
        if len(result):
            assert_sentences_are_whole(result, keys, printed, width)
            shown = set(result.columns) - set(notes.replace(",", " ").split(";")[0].split())
            filled = {column.name for column in display_columns(result.arrow())}
            assert shown & filled, "no column is left"


def assert_sentences_are_whole(
    result: Result, keys: tuple[str, ...], printed: str, width: int
) -> None:
    """Each sentence of a shown column stands in the places of that column."""
    plan = layout(display_columns(result.arrow()), width - 2, keys)
    lines = printed.splitlines()
    begin = 1
    for shown in plan.shown:
        column = "".join(line[begin : begin + shown.room].replace(" ", "") for line in lines)
        begin += shown.room + plan.gap
        for cell in shown.column.cells:
            assert not is_sentence(cell) or cell.replace(" ", "") in column


@pytest.mark.parametrize("width", WIDTHS)
def test_every_command_keeps_to_the_width(width: int, serving: Path) -> None:
    for arguments in (
        ("info", serving),
        ("queries",),
        ("queries", "comm.bandwidth"),
        ("run", "kernels.top", serving, "--limit", "3"),
        ("sql", serving, "SELECT range AS number, 'a' AS letter FROM range(1500)"),
    ):
        done = called(*arguments, COLUMNS=str(width))
        lines = (done.stdout + done.stderr).decode().splitlines()
        named = [line for line in lines if not line.lstrip().startswith("File: ")]
        assert all(places(line) <= width for line in named), arguments


def test_info_begins_with_the_run_and_has_the_ledger_in_one_line(serving: Path) -> None:
    lines = output("info", serving).splitlines()
    assert lines[0].startswith("qwen3-8b · qwen3, 36 layers · TP 2, PP 1, DP 1")
    assert lines[1] == "255.6 ms recorded; steps: 31 decode (137.4 ms), 9 mixed (114.4 ms)"
    assert lines[3][:2] in ("! ", "✗ ")
    findings = traceql.open(serving).query("overview.findings").rows()
    assert findings[0]["remedy"] in " ".join(" ".join(lines).split())
    shown = [row for row in findings if row["severity"] != "remark"]
    assert len([line for line in lines if line.startswith("    try  ")]) == len(shown)
    ledger = [line for line in lines if "ledger" in line]
    assert len(ledger) == 2
    assert ledger[0].startswith("✓ ledger: all 33 checks hold")
    assert ledger[1] == "    see  traceql run quality.ledger run.duckdb"


@pytest.mark.parametrize("name", _LIMITED)
def test_a_limit_of_zero_is_none(name: str, trace: traceql.Run) -> None:
    everything = trace.query(name, limit=0)
    assert len(everything) == trace.count(name) == trace.count(name, limit=1)
    assert not everything.reached_limit
    one = trace.query(name, limit=1)
    assert len(one) == min(1, len(everything))
    assert one.reached_limit == bool(len(everything))


def test_a_cut_table_says_how_many_rows_there_are(serving: Path) -> None:
    with traceql.open(serving) as trace:
        total = trace.count("kernels.top")
    cut = called("run", "kernels.top", serving, "--limit", "3")
    assert cut.stderr.decode() == f"3 of {total} rows; --limit 0 for all\n"
    whole = output("run", "kernels.top", serving, "--limit", "0")
    assert len(whole.splitlines()) == 3 + total  # with a blank line, the titles and a rule
    with traceql.open(serving) as trace:
        shown = trace.query("kernels.top", limit=3)._repr_html_()
    assert "limit: 3 rows; <code>limit=0</code>" in shown


def test_a_name_is_cut_in_the_middle_and_a_sentence_is_not() -> None:
    result = Result(pa.table({"n": [1, 2], "what": [_SENTENCE, _KERNEL]}))
    assert is_sentence(_SENTENCE)
    assert not is_sentence(_KERNEL)
    assert not is_sentence("Memcpy HtoD (Pinned -> Device)")
    (_, what) = layout(display_columns(result.arrow()), 58).shown
    assert "".join(what.lines(_SENTENCE)).replace(" ", "") == _SENTENCE.replace(" ", "")
    (name,) = what.lines(_KERNEL)
    assert re.fullmatch(r"void vllm::.*….*const\*\)", name)
    assert places(name) == what.room
