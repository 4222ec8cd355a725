"""The documents say what is there: generated pages are up to date, commands run, links lead on."""

import re
import runpy
import shlex
from pathlib import Path

import databases
import pytest
from click.testing import CliRunner

from capture.cli.attach import command as attach_command
from capture.cli.run import command as run_command
from traceql.cli import cli

DOCS = databases.ROOT / "docs"
PAGES = [databases.ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def commands(page: Path) -> list[list[str]]:
    """Those that ask a database, as words without the program's name."""
    return [w for w in all_commands(page) if w[0] in ("run", "sql", "info", "queries", "check")]


def all_commands(page: Path) -> list[list[str]]:
    """All commands of traceql, as words without the program's name."""
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    lines = [line for block in blocks for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines if line.startswith("traceql ")]
    return [w[1:] for w in words]


def test_reference_is_what_heads_and_comments_say() -> None:
    made = runpy.run_path(str(DOCS / "make_reference.py"))["pages"]()
    written = {page.name: page.read_text(encoding="utf-8") for page in DOCS.glob("reference/*.md")}
    assert written == made, "run python docs/make_reference.py"


@pytest.mark.parametrize("name", ["tutorial.md", "how-to.md"])
def test_every_command_runs(name: str) -> None:
    database = str(databases.trace("qwen3-32b-tp4-graph-nccl").path)
    found = [words for words in commands(DOCS / name) if "--chart" not in words]
    assert len(found) > 8
    for words in found:
        named = ("run.duckdb", "before.duckdb", "after.duckdb")
        given = [database if word in named else word for word in words]
        result = CliRunner().invoke(cli, given)
        assert result.exit_code == 0, (words, result.output, result.exception)


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
    assert declared - documented == {"--output", "--shapes"}  # named as -o and --no-shapes
    assert documented - declared == {"--no-shapes", "--profiler-config"}  # the latter is vLLM's


def test_every_link_between_documents_leads_to_a_file() -> None:
    links = [
        page.parent / link
        for page in PAGES
        for link in _LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in link
    ]
    assert len(links) > 10
    assert [str(link) for link in links if not link.exists()] == []


def test_what_the_tutorial_tells_is_what_the_queries_say() -> None:
    trace = databases.trace("qwen3-32b-tp4-graph-nccl")
    told = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    first = trace.run("time.breakdown", rank=0).rows()[0]
    for column in ("computing_ns", "exposed_comm_ns", "idle_ns"):
        assert f"{first[column] / 1e6:.1f}" in told, column
    assert f"{trace.run('idle.gaps', limit=1).rows()[0]['dur'] / 1e6:.2f} ms" in told
    launch = [row for row in trace.run("idle.by_cause", rank=0) if row["cause"] == "launch"]
    assert f"{launch[0]['gaps']:,} gaps of cause `launch`" in told
    (cost,) = (row["cost_ns"] for row in trace.run("comm.skew") if row["rank"] == 0)
    assert f"{cost / 1e6:.0f} ms of waiting" in told
