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
from click.testing import CliRunner
from written_results import WrittenPoint, latencies, write_results

from capture.cli import attach_command, run_command
from capture.cli.experiment import command as experiment_command
from capture.cli.peaks import command as measure_command
from traceql.cli import cli, experiment, peaks
from traceql.cli.commands import lake as lake_command

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
LAKE_COMMANDS = ("add", "run", "sql", "check", "compact", "remove")
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
    """Every `traceql` command of a page that can run here, in the page's order, without its name.

    They stand at the beginning of a line in a block, or alone in a cell of a table. Recording needs
    a GPU or a server, experiments need vLLM; opening Perfetto needs a browser.
    """
    words = [w for w in all_commands(page) if w[:2] != ["experiment", "run"]]
    return [w for w in words if w[0] not in ("capture", "ui") and "--ui" not in w]


def all_commands(page: Path) -> list[list[str]]:
    """Every `traceql` command of a page, as words without its name."""
    text = page.read_text(encoding="utf-8")
    lines = [
        line
        for found in _COMMANDS.finditer(text)
        for line in found[found.lastgroup or 0].splitlines()
    ]
    return [_words(line)[1:] for line in lines if line.startswith("traceql ")]


def _words(line: str) -> list[str]:
    """The words of a command, without the program that its output goes to."""
    return list(takewhile(lambda word: word != "|", shlex.split(line, comments=True)))


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


def writes(words: list[str]) -> bool:
    return words[0] in ("load", "report", "export") or "--chart" in words or "-o" in words


def is_a_page(words: list[str]) -> bool:
    """Whether the command writes a report or a chart, which takes seconds."""
    return words[0] == "report" or "--chart" in words or "--report" in words


def pages_of(documents: Iterable[str]) -> list[list[str]]:
    """The commands of these documents that write a report or a chart."""
    found = [words for one in documents for words in commands(databases.ROOT / one)]
    return [words for words in found if is_a_page(words)]


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
    found = [words for words in commands(DOCS / "tutorial.md") if not writes(words)]
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
@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_the_python_of_a_page_runs(page: str, readers_folder: Path) -> None:
    give(readers_folder, "run", "after")
    (readers_folder / "results").mkdir()
    (readers_folder / "results" / "tp").symlink_to(RESULTS)
    (readers_folder / "peaks.json").symlink_to(MEASURED_PEAKS)
    names: dict[str, object] = {}
    for block in _PYTHON.findall((databases.ROOT / page).read_text(encoding="utf-8")):
        exec(block, names)  # each block goes on with the names of those before


def test_every_capture_command_has_options_that_exist() -> None:
    known = {"run": run_command, "attach": attach_command}
    found = [words for page in PAGES for words in all_commands(page) if words[0] == "capture"]
    assert {words[1] for words in found} == set(known)
    for _, name, *arguments in found:
        known[name].make_context(name, list(arguments))


def test_every_option_of_capture_is_in_its_document() -> None:
    told = (DOCS / "capture.md").read_text(encoding="utf-8")
    declared = {
        option
        for command in (run_command, attach_command)
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    documented = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", told))
    others = {"--profiler-config", "--worker-extension-cls"}  # of vLLM
    assert declared - documented == {"--output", "--shapes"}  # named as -o and --no-shapes
    assert documented - declared == {"--no-shapes", *others}


def test_every_command_of_experiments_has_options_that_exist_and_are_documented() -> None:
    known = {
        ("peaks", "measure"): measure_command,
        ("peaks", "import"): peaks.import_,
        ("peaks", "show"): peaks.show,
        ("run",): experiment_command,
        ("load",): experiment.load,
        ("show",): experiment.show,
        ("report",): experiment.report,
    }
    found = [
        words[1:] for page in PAGES for words in all_commands(page) if words[0] == "experiment"
    ]
    told_of = {next(one for one in known if tuple(words[: len(one)]) == one) for words in found}
    assert told_of == set(known)
    for words in found:
        name = next(one for one in known if tuple(words[: len(one)]) == one)
        known[name].make_context(" ".join(name), list(words[len(name) :]))
    told = (DOCS / "experiments.md").read_text(encoding="utf-8")
    options = (o for one in known.values() for given in one.params for o in given.opts)
    assert [option for option in options if option[:2] == "--" and option not in told] == []


def test_every_option_of_a_lake_is_in_its_document() -> None:
    told = (DOCS / "lake.md").read_text(encoding="utf-8")
    context = lake_command.make_context("lake", [], resilient_parsing=True)
    commands_of = {name: lake_command.get_command(context, name) for name in LAKE_COMMANDS}
    assert list(commands_of) == lake_command.list_commands(context)
    options = {o for one in commands_of.values() if one for given in one.params for o in given.opts}
    common = {"--format", "--wide", "--spreadsheet-safe", "--trace-processor", "--queries"}
    assert {one for one in options if one[:2] == "--" and one not in told} <= common


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
    assert (DOCS, "examples/scaling-h200/results.duckdb") in named
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


def test_what_the_tutorial_tells_is_what_the_queries_say() -> None:
    trace = databases.trace(_EXAMPLE)
    told = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    first = trace.run("time.breakdown", rank=0).rows()[0]
    for column in (
        "computing_ns", "exposed_comm_ns", "exposed_transfer_ns", "exposed_wait_ns", "idle_ns",
    ):  # fmt: skip
        assert f"{first[column] / 1e6:.1f}" in told, column
    assert f"{trace.run('idle.gaps', limit=1).rows()[0]['dur'] / 1e6:.2f} ms" in told
    launch = [row for row in trace.run("idle.by_cause", rank=0) if row["cause"] == "launch"]
    assert f"{launch[0]['gaps']:,} gaps of cause `launch`" in told
    (cost,) = (row["cost_ns"] for row in trace.run("comm.skew") if row["rank"] == 0)
    assert f"{cost / 1e6:.0f} ms of waiting" in told
    (lost,) = trace.run("time.lost", limit=1)
    assert (lost["rank"], lost["phase"], lost["cause"]) == (0, "prefill", "kernel")
    waited = f"{lost['wait_ns'] / 1e6:.1f} ms for it, {lost['share_pct']:.1f}%"
    assert waited in " ".join(told.split())
    (finding,) = trace.run("overview.findings")
    assert (finding["kind"], f"{finding['value']:.0f}") == ("communication", "20")


def test_readme_shows_what_the_demo_says_of_findings_and_ledger() -> None:
    info = ["info", str(databases.trace(_EXAMPLE).path)]
    said = CliRunner(env={"COLUMNS": "120"}).invoke(cli, info).output
    shown = (databases.ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    verdicts = [line for line in said.splitlines() if line.startswith(("!", "✓"))]
    assert [line[0] for line in verdicts] == ["!", "✓"]
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
