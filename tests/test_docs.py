"""The documents say what is there: generated pages are up to date, commands run, links lead on."""

import importlib.util
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

import databases
import pytest
from click import Command
from click.testing import CliRunner
from written_results import WrittenPoint, latencies, write_results

from capture.cli import attach_command, run_command
from capture.cli.experiment import command as experiment_command
from capture.cli.peaks import command as measure_command
from traceql.cli import cli, experiment, peaks
from traceql.cli.command_tree import lake as lake_command

DOCS = databases.ROOT / "docs"
PAGES = [databases.ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# Documents in the order in which one reads them, and the databases that they take as given.
READ: list[tuple[str, list[str]]] = [
    ("docs/tutorial.md", []),
    ("README.md", []),
    ("docs/commands.md", []),
    ("docs/how-to.md", ["run", "before", "after"]),
    ("docs/compare.md", []),
    ("docs/lake.md", ["run"]),
]
_COMMANDS = re.compile(
    r"^```\w*\n(?P<block>.*?)^```|(?<=\| )`(?P<cell>traceql [^`]+)`(?= \|)",
    re.MULTILINE | re.DOTALL,
)
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
PYTHON_PAGES = [
    "README.md",
    *(f"docs/{name}.md" for name in ("python", "compare", "experiments", "how-to")),
]
RESULTS = databases.EXAMPLES / "experiment-h200" / "results.duckdb"
MEASURED_PEAKS = databases.EXAMPLES / "experiment-h100" / "peaks.json"
RECORDING: dict[tuple[str, ...], Command] = {
    ("capture", "run"): run_command,
    ("capture", "attach"): attach_command,
    ("experiment", "peaks", "measure"): measure_command,
    ("experiment", "peaks", "import"): peaks.import_,
    ("experiment", "peaks", "show"): peaks.show,
    ("experiment", "run"): experiment_command,
    ("experiment", "load"): experiment.load,
    ("experiment", "show"): experiment.show,
    ("experiment", "report"): experiment.report,
}
_BUNDLED = re.compile(r"(?<![\w/])examples/[\w./-]*\w")
_EXAMPLE = "qwen3-32b-tp4-graph-nccl"
# Folders that stand for a reader's own runs, and the bundled run in their place.
_OWN_RUNS = {
    "runs/tp4": _EXAMPLE,
    "runs/chat": "qwen3-8b-tp2-serving",
    "runs/before": "qwen3-8b-tp2-serving",
    "runs/after": "qwen3-8b-tp2-batch16",
    "before": "qwen3-8b-tp2-serving",
    "after": "qwen3-8b-tp2-batch16",
}


def commands(page: Path) -> list[list[str]]:
    """Those that need no GPU, server, vLLM or browser."""
    words = [w for w in all_commands(page) if w[:2] != ["experiment", "run"]]
    return [w for w in words if w[0] not in ("capture", "ui") and "--ui" not in w]


def all_commands(page: Path) -> list[list[str]]:
    """Every `traceql` command of a page, as words without its name and without a pipe.

    They stand at the beginning of a line in a block, or alone in a cell of a table.
    """
    text = page.read_text(encoding="utf-8")
    lines = [
        line
        for found in _COMMANDS.finditer(text)
        for line in found[found.lastgroup or 0].splitlines()
    ]
    found = [shlex.split(line, comments=True) for line in lines if line.startswith("traceql ")]
    return [list(takewhile(lambda word: word != "|", words))[1:] for words in found]


@pytest.fixture
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader types the commands: the examples are there, and runs of their own."""
    (tmp_path / "examples").symlink_to(databases.EXAMPLES)
    for own, bundled in _OWN_RUNS.items():
        (tmp_path / own).parent.mkdir(exist_ok=True)
        (tmp_path / own).symlink_to(databases.EXAMPLES / bundled)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def give(folder: Path, *names: str) -> None:
    """Databases that a page takes as given, of the bundled run of four ranks."""
    for name in names:
        shutil.copy(databases.trace(_EXAMPLE).path, folder / f"{name}.duckdb")


def pages_of(documents: Iterable[str]) -> list[list[str]]:
    """The commands of these documents that write a report or a chart, which takes seconds."""
    found = [words for one in documents for words in commands(databases.ROOT / one)]
    return [one for one in found if one[0] == "report" or {"--chart", "--report"} & {*one}]


def succeed(words: list[str]) -> None:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, (words, result.output, result.exception)


def test_reference_is_what_heads_and_comments_say() -> None:
    made = runpy.run_path(str(DOCS / "make_reference.py"))["pages"]()
    written = {page.name: page.read_text(encoding="utf-8") for page in DOCS.glob("reference/*.md")}
    assert written == made, "run python docs/make_reference.py"


def test_the_schema_of_plans_is_what_the_program_reads() -> None:
    made = runpy.run_path(str(DOCS / "make_reference.py"))
    assert made["SCHEMA"].read_text(encoding="utf-8") == made["schema_text"]()


@pytest.mark.slow
def test_every_command_that_only_reads_a_database_runs(readers_folder: Path) -> None:
    """Those of the tutorial; all commands of all pages take longer, see below."""
    give(readers_folder, "run", "before", "after")
    writing = {"load", "report", "export", "--chart", "-o"}
    found = [words for words in commands(DOCS / "tutorial.md") if not writing & {*words}]
    assert len(found) > 8
    for words in found:
        succeed(words)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "given"), READ)
def test_every_command_runs_after_those_before_it(
    page: str, given: list[str], readers_folder: Path
) -> None:
    """A report or a chart of the same command is written once, by the first page that has it."""
    give(readers_folder, *given)
    found = commands(databases.ROOT / page)
    assert len(found) > 5
    before = pages_of(takewhile(lambda earlier: earlier != page, (one for one, _ in READ)))
    for words in found:
        if words not in before:
            succeed(words)


@pytest.mark.slow
def test_every_command_on_results_runs_after_those_before_it(readers_folder: Path) -> None:
    points = [
        WrittenPoint([latencies(ttft=9.0, tpot=8.0, e2el=99.0)] * 5, batch=1, tp=tp)
        for tp in (1, 2)
    ]
    write_results(readers_folder / "results" / "tp", points)
    of_results = (("experiment", "load"), ("experiment", "show"), ("experiment", "report"))
    found = [w for w in commands(DOCS / "experiments.md") if tuple(w[:2]) in of_results]
    assert {tuple(words[:2]) for words in found} == set(of_results)
    for words in found:
        succeed(words)


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_the_python_of_a_page_runs(page: str, readers_folder: Path) -> None:
    give(readers_folder, "run", "after")
    (readers_folder / "results").mkdir()
    (readers_folder / "results" / "tp").symlink_to(RESULTS)
    (readers_folder / "peaks.json").symlink_to(MEASURED_PEAKS)
    names: dict[str, object] = {}
    for block in _PYTHON.findall((databases.ROOT / page).read_text(encoding="utf-8")):
        exec(block, names)  # each block goes on with the names of those before


def test_every_command_that_records_has_options_that_exist() -> None:
    used = set()
    for words in (words for page in PAGES for words in all_commands(page)):
        if words[0] in ("capture", "experiment"):
            name = next(one for one in RECORDING if words[: len(one)] == [*one])
            RECORDING[name].make_context(" ".join(name), words[len(name) :])
            used.add(name)
    assert used == set(RECORDING)


def declared_options(commands: Iterable[Command]) -> set[str]:
    given = {option for one in commands for option_of in one.params for option in option_of.opts}
    return {option for option in given if option.startswith("--")}


def documented_options(page: str) -> set[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


def test_every_option_is_in_its_document() -> None:
    of_capture, of_experiments = (
        declared_options(one for name, one in RECORDING.items() if name[0] == group)
        for group in ("capture", "experiment")
    )
    documented = documented_options("capture.md")
    assert of_capture - documented == {"--output", "--shapes"}  # named as -o and --no-shapes
    of_vllm = {"--profiler-config", "--worker-extension-cls", "--scheduler-cls"}
    assert documented - of_capture == {"--no-shapes", *of_vllm}
    assert of_experiments <= documented_options("experiments.md")
    lake = lake_command.make_context("lake", [], resilient_parsing=True)
    of_lake = [lake_command.get_command(lake, one) for one in lake_command.list_commands(lake)]
    common = {"--format", "--wide", "--spreadsheet-safe", "--trace-processor", "--queries"}
    documented = documented_options("lake.md")
    assert declared_options(one for one in of_lake if one) - documented <= common


def test_every_link_between_documents_leads_to_a_file() -> None:
    links = [
        page.parent / link
        for page in PAGES
        for link in _LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in link
    ]
    assert len(links) > 10
    assert [str(link) for link in links if not link.exists()] == []


def test_every_bundled_file_that_a_document_names_is_there() -> None:
    named = {
        (page.parent, name)
        for page in PAGES
        for name in _BUNDLED.findall(page.read_text(encoding="utf-8"))
    }
    assert (DOCS, "examples/experiment-h200/results.duckdb") in named
    missing = {
        name
        for beside, name in named
        if not any((p / name).exists() for p in (databases.ROOT, beside))
    }
    assert missing == set()


def test_every_command_on_the_measured_scaling_runs(readers_folder: Path) -> None:
    shown = [words for words in commands(DOCS / "scaling.md") if "show" in words]
    assert len(shown) >= 4
    for words in shown:
        succeed(words)


def test_what_the_tutorial_says_is_what_the_queries_say() -> None:
    trace = databases.trace(_EXAMPLE)
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    first = trace.query("time.breakdown", rank=0).rows()[0]
    for column in (
        "computing_ns", "exposed_comm_ns", "exposed_transfer_ns", "exposed_wait_ns", "idle_ns",
    ):  # fmt: skip
        assert f"{first[column] / 1e6:.1f}" in text, column
    assert f"{trace.query('idle.gaps', limit=1).rows()[0]['dur'] / 1e6:.2f} ms" in text
    launch = [row for row in trace.query("idle.by_cause", rank=0) if row["cause"] == "launch"]
    assert f"{launch[0]['gaps']:,} gaps of cause `launch`" in text
    (cost,) = (row["cost_ns"] for row in trace.query("comm.skew") if row["rank"] == 0)
    assert f"{cost / 1e6:.0f} ms of waiting" in text
    (lost,) = trace.query("time.lost", limit=1)
    assert (lost["rank"], lost["phase"], lost["cause"]) == (0, "prefill", "kernel")
    waited = f"{lost['wait_ns'] / 1e6:.1f} ms for it, {lost['share_pct']:.1f}%"
    assert waited in " ".join(text.split())
    first, second = trace.query("overview.findings")
    assert (first["cause"], second["cause"]) == ("custom_all_reduce_off", "exposed_communication")
    assert second["headline"] == "Transfers that no compute hides take 20% of a step"


def test_readme_shows_what_the_demo_says_of_findings_and_ledger() -> None:
    info = ["info", str(databases.trace(_EXAMPLE).path)]
    said = CliRunner(env={"COLUMNS": "120"}).invoke(cli, info).output
    shown = (databases.ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    verdicts = [line for line in said.splitlines() if line.startswith(("!", "✓"))]
    assert [line[0] for line in verdicts] == ["!", "!", "✓"]
    assert set(verdicts) <= set(shown)


_SITE = databases.ROOT / "site"
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?([^"'\s>]+)"""
    r"""|<link\b[^>]*\bhref=["']?([^"'\s>]+)"""
)
_STYLED = re.compile(r"""url\(["']?([^"')]+)|@import\s+["']([^"']+)""")


def elsewhere(found: list[tuple[str, str]]) -> set[str]:
    """Addresses of other hosts."""
    return {url for pair in found for url in pair if re.match(r"(\w+:)?//", url)}


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("zensical"), reason="make docs installs zensical")
def test_the_site_is_built_and_loads_nothing_from_elsewhere() -> None:
    made = subprocess.run(
        [sys.executable, str(databases.ROOT / "docs" / "make_site.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr  # a link or an anchor leads nowhere
    pages, styles = list(_SITE.rglob("*.html")), list(_SITE.rglob("*.css"))
    assert len(pages) > 10
    assert styles
    for page in pages:
        assert elsewhere(_LOADED.findall(page.read_text(encoding="utf-8"))) == set(), page
    for style in styles:
        assert elsewhere(_STYLED.findall(style.read_text(encoding="utf-8"))) == set(), style
    assert "kernels.top" in (_SITE / "search.js").read_text(encoding="utf-8")
