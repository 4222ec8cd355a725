"""traceql cut, and the options of other commands that take a part of a run."""

import json
from pathlib import Path

import databases
import pytest
from command_line import called, refusal

import traceql
from traceql.cli import info
from traceql.database.excerpt.windows import format_option, nanoseconds
from traceql.present.mcp import answers
from traceql.present.mcp.answers import Databases

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database() -> Path:
    return databases.trace("qwen3-32b-tp4-graph-nccl").path


@pytest.fixture(scope="module")
def part(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("part") / "part.duckdb"
    assert called("cut", database, "-o", file, "--steps", "3").returncode == 0
    return file


def lines(text: bytes) -> list[str]:
    return text.decode().splitlines()


def test_an_excerpt_is_a_database_that_says_what_it_has(database: Path, part: Path) -> None:
    done = called("run", "steps.timeline", part, "--format", "json")
    assert {row["number"] for row in json.loads(done.stdout)} == {3}
    (line,) = lines(done.stderr)
    assert line.startswith(f"excerpt of {database.name}: step 3, ")
    assert "4 of 28 steps whole" in line
    assert part.stat().st_size * 2 < database.stat().st_size


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize(
    "command", [["info"], ["run", "kernels.top"], ["sql"], ["diff"], ["report"]]
)
def test_every_command_names_the_excerpt(part: Path, tmp_path: Path, command: list[str]) -> None:
    more: dict[str, list[str | Path]] = {
        "sql": ["SELECT 1"], "diff": [part], "report": ["-o", tmp_path / "report.html"]
    }  # fmt: skip
    err = lines(called(*command, part, *more.get(command[0], [])).stderr)
    assert len([line for line in err if line.startswith("excerpt of ")]) == 1


def test_commands_make_the_excerpt_themselves(database: Path, part: Path) -> None:
    asked = ("run", "kernels.top", database, "--limit", "0", "--format", "json")
    done = called(*asked, "--steps", "3")
    assert done.stdout == called("run", "kernels.top", part, *asked[3:]).stdout
    assert len(lines(done.stderr)) == 1
    counted = "SELECT COUNT(*) AS n FROM kernel"
    done = called("sql", database, counted, "--from", "165ms", "--to", "0.19", "--format", "csv")
    with traceql.open(database) as trace:
        expected = trace.sql(f"{counted} WHERE ts >= 165e6 AND ts < 190e6").rows()[0]["n"]
    assert lines(done.stdout) == ["n", str(expected)]


def test_step_of_a_query_is_its_own(database: Path) -> None:
    """--steps says what the excerpt has, --step what of it the query shows."""
    asked = ("run", "kernels.top", database, "--limit", "0", "--format", "json", "--step", "3")
    assert called(*asked, "--steps", "3-4").stdout == called(*asked).stdout


def refused(text: bytes) -> str:
    """The last line, below the one that says what the excerpt has."""
    first, *_, last = lines(text)
    assert first.startswith("excerpt of ")
    return last


def test_an_excerpt_is_replaced_and_nothing_else(
    database: Path, part: Path, tmp_path: Path
) -> None:
    file = tmp_path / "again.duckdb"
    for steps in ("3", "4"):
        assert called("cut", database, "-o", file, "--steps", steps).returncode == 0
    with traceql.open(file) as trace:
        assert {row["number"] for row in trace.sql("SELECT number FROM step")} == {4}
    said = refused(called("cut", part, "-o", database, "--steps", "3").stderr)
    assert said == f"traceql: {database} exists and is not an excerpt; name another file with -o"
    said = refusal("cut", database, "-o", database, "--steps", "3")
    assert said.endswith("is the database itself; name another file with -o")


def test_an_excerpt_takes_no_more_traces(part: Path) -> None:
    before = part.read_bytes()
    trace = databases.files("qwen3-8b-tp1-graph")[0]
    said = refused(called("load", trace, "-o", part).stderr)
    assert "is an excerpt, which cannot be added to; name another file with -o" in said
    assert part.read_bytes() == before


def test_a_lake_takes_whole_runs(part: Path, database: Path, tmp_path: Path) -> None:
    done = called("lake", "add", part, "--lake", tmp_path / "lake")
    assert done.returncode == 1
    assert f"is an excerpt; add the whole run, {database.name}" in done.stderr.decode()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "1m"], "'1m' is not a time"),
        (["--from", "2s", "--to", "1s"], "the window is empty: from 2s to 1s"),
        (["--from", "3s"], "nothing from 3.000 s on: there is 0.000 s to 0.216912 s"),
        (["--steps", "99"], "no step 99; there are steps 0 to 6 (rank 0)"),
        (["--steps", "3", "--sample", "2"], "one of the three"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    database: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    assert said in refusal("cut", database, "-o", tmp_path / "part.duckdb", *options)
    assert said in refusal("run", "kernels.top", database, *options)
    assert list(tmp_path.iterdir()) == []


def test_what_is_too_large_for_perfetto_is_reported_and_not_cut(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(info, "PERFETTO_SLICES", 52_600)
    file = tmp_path / "run.pftrace"
    (line,) = lines(called("export", "perfetto", database, "-o", file).stderr)
    assert line.startswith("52,601 slices are too many for the Perfetto UI")
    assert "--steps" in line
    assert file.stat().st_size > 1_000_000  # all of it is there
    monkeypatch.setattr(info, "PERFETTO_SLICES", 52_601)
    assert called("export", "perfetto", database, "-o", file).stderr == b""


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("12.5s", 12_500_000_000), ("12.5", 12_500_000_000), ("1,234.5 ms", 1_234_500_000),
        ("40us", 40_000), ("40 µs", 40_000), ("7ns", 7), ("0", 0), (".5s", 500_000_000),
    ],
)  # fmt: skip
def test_times_are_read_exactly(text: str, ns: int) -> None:
    assert nanoseconds(text) == ns
    assert nanoseconds(format_option(ns)) == ns


def test_assistants_get_the_excerpt(part: Path) -> None:
    runs = Databases([part])
    statement = answers.sql(runs, {"statement": "SELECT 1"})
    for answer in (*answers.databases(runs, {}), answers.findings(runs, {}), statement):
        assert answer["excerpt"].startswith("excerpt of ")
