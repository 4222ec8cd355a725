"""A name may hold any character: people see all of it, and no terminal or page obeys it."""

import csv
import io
import json
from pathlib import Path

import databases
import pytest
from command_line import called, output, refusal
from rich.cells import cell_len

import traceql

# Sets the title, clears the screen (also in one character), turns the direction, ends a line.
_ACTS = "\x1b]0;t\x07\x1b[2J\x9b\x7f\u202e\u2066\u2028"
_SHOWN = r"\x1b]0;t\x07\x1b[2J\x9b\x7f\u202e\u2066\u2028"
_STATEMENT = "SELECT {name} AS name, 5 AS n"


def as_sql(text: str) -> str:
    return " || ".join(f"chr({ord(letter)})" for letter in text)


@pytest.fixture(scope="module")
def database() -> Path:
    return databases.trace("qwen3-8b-tp1-graph").path


@pytest.mark.slow
def test_a_table_shows_what_a_program_gets_exactly(database: Path) -> None:
    statement = _STATEMENT.format(name=as_sql(_ACTS))
    assert _SHOWN in output("sql", database, statement)
    assert json.loads(output("sql", database, statement, "--format", "json"))[0]["name"] == _ACTS
    assert f"{_ACTS},5\n" in output("sql", database, statement, "--format", "csv")
    with traceql.open(database) as trace:
        shown = trace.sql(statement)._repr_html_()
    assert _SHOWN in shown
    assert not set(_ACTS) - set(_SHOWN) & set(shown)


@pytest.mark.slow
@pytest.mark.parametrize("name", [r"x\[/foo]", "[gpu] [/]", "foo:on:bar :smile:", "[red]a[/red]"])
def test_names_are_no_markup(name: str, database: Path) -> None:
    title = name.replace('"', "")
    shown = output("sql", database, f"SELECT '{name}' AS \"{title}\"").splitlines()
    assert [line.strip() for line in (shown[1], shown[3])] == [name, name]


def test_columns_stay_aligned_beside_wide_letters_and_accents(database: Path) -> None:
    names = ["日本語", "e\u0301e\u0301", "plain"]
    rows = ", ".join(f"('{name}', '|')" for name in names)
    lines = output("sql", database, f"FROM (VALUES {rows}) AS t (name, edge)").splitlines()
    places = {cell_len(line.partition("|")[0]) for line in lines if "|" in line}
    assert places == {1 + len("日本語") * 2 + 3}


def test_an_error_line_shows_the_name_of_a_file(tmp_path: Path) -> None:
    said = refusal("info", tmp_path / "a\x1b]0;t\x07\u202e\udcff.duckdb")
    assert r"a\x1b]0;t\x07\u202e\udcff.duckdb does not exist" in said


def test_texts_of_ones_own_query_are_shown(database: Path, tmp_path: Path) -> None:
    (tmp_path / "my.sql").write_text(
        "-- One \x1b[2Jrow.\n-- @param a INTEGER = 1  An \x1b[2Jint.\nSELECT 1 AS n WHERE $a > 5\n"
    )
    for arguments in (("queries",), ("queries", "my"), ("run", "--help"), ("run", "my", "--help")):
        shown = output(*arguments, TRACEQL_QUERIES=str(tmp_path))
        assert r"One \x1b[2Jrow." in shown
        assert "\x1b" not in shown


def test_a_statement_that_is_no_text_is_refused(database: Path) -> None:
    assert "not UTF-8" in refusal("sql", database, "SELECT '\udcff'")
    assert called("sql", database, "SELECT 'é' AS x").stdout.decode().split()[-1] == "é"


@pytest.mark.slow
def test_a_spreadsheet_runs_no_formula(database: Path) -> None:
    statement = (
        "SELECT '=1+1' AS \"@head\", '+a' AS plus, '-a' AS minus, chr(9) || 'x' AS tab,"
        " chr(13) || 'x' AS cr, -5 AS number, -2.5 AS decimal, 'a=b' AS plain"
    )
    cells = {"@head": "=1+1", "plus": "+a", "minus": "-a", "tab": "\tx", "cr": "\rx"}
    others = {"number": "-5", "decimal": "-2.5", "plain": "a=b"}
    exact = output("sql", database, statement, "--format", "csv")
    assert list(csv.DictReader(io.StringIO(exact, newline=""))) == [cells | others]
    safe = output("sql", database, statement, "--format", "csv", "--spreadsheet-safe")
    guarded = {name.replace("@", "'@"): f"'{cell}" for name, cell in cells.items()}
    assert list(csv.DictReader(io.StringIO(safe, newline=""))) == [guarded | others]
    said = refusal("sql", database, statement, "--spreadsheet-safe", status=2)
    assert said.endswith("--spreadsheet-safe needs --format csv")
