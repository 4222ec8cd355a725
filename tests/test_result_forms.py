"""Every form of a result holds what DuckDB's own cursor fetches from a copy of the database."""

import csv
import io
import json
import shutil
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import databases
import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from command_line import called, output, process, refusal

import traceql
from traceql.sql.execute import make_macros, search_path
from traceql.sql.query import bound, catalog, query_named
from traceql.sql.registry import definitions

Row = dict[str, Any]
RUN = "qwen3-32b-tp4-graph-nccl"
# Numbers, texts, truth values, lists and NULLs.
QUERIES = ("kernels.top", "overview.run", "steps.anatomy", "quality.ledger", "comm.stragglers")
# One column of each type that a query may return, with NULL and without; the first number is one
# that a double cannot hold.
TYPES = """
    SELECT * FROM (VALUES
        (9007199254740993, 2::HUGEINT, 1.5::DOUBLE, 2.25::DECIMAL(9, 2), 'a "b", c', TRUE,
            [1, 2], {'x': 1}, MAP {'rank': '3'}),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (-3, 4, -0.1, -3, E'two\nlines', FALSE, [], {'x': NULL}, MAP {})
    ) AS t (number, sum, mean, exact, text, truth, list, struct, map)
"""


@pytest.fixture(scope="module")
def trace() -> traceql.Run:
    return databases.trace(RUN)


@pytest.fixture(scope="module")
def connection(
    trace: traceql.Run, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Shares nothing with the trace, neither the file nor the way from DuckDB to Python."""
    copy = tmp_path_factory.mktemp("forms") / "copy.duckdb"
    shutil.copyfile(trace.path, copy)
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{copy}' AS copy (READ_ONLY)")
        con.execute(f"SET search_path = '{search_path('copy')}'")
        make_macros(con, definitions())
        yield con


def fetched(con: duckdb.DuckDBPyConnection, sql: str, parameters: Row | None = None) -> list[Row]:
    cursor = con.execute(sql, parameters or {})
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def of_frame(result: traceql.Result) -> list[Row]:
    """A DataFrame's rows, with None for missing values."""

    def value(cell: Any) -> Any:
        if isinstance(cell, dict) or not pd.api.types.is_scalar(cell):
            return cell if isinstance(cell, dict) else list(cell)
        return None if pd.isna(cell) else cell

    frame = result.df()
    columns = {name: [value(cell) for cell in frame[name]] for name in frame.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def of_csv(text: str, like: list[Row]) -> list[Row]:
    """A CSV's rows, each cell read as the type that it must have."""

    def value(cell: str, expected: Any) -> Any:
        match expected:
            case None:
                return None if cell == "" else cell
            case bool():
                return {"True": True, "False": False}.get(cell, cell)
            case list() | dict():
                return json.loads(cell)
            case _:
                return type(expected)(cell)

    lines = list(csv.DictReader(io.StringIO(text)))
    assert len(lines) == len(like)
    return [
        {name: value(cell, row.get(name)) for name, cell in line.items()}
        for line, row in zip(lines, like, strict=True)
    ]


def require_forms(result: traceql.Result, expected: list[Row], *command: str | Path) -> None:
    assert expected
    assert result.columns == list(expected[0])
    assert len(result) == len(expected)
    assert result.rows() == list(result) == of_frame(result) == expected
    assert json.loads(output(*command, "--format", "json")) == expected
    assert of_csv(output(*command, "--format", "csv"), expected) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_forms_of_a_canned_query(
    name: str, trace: traceql.Run, connection: duckdb.DuckDBPyConnection
) -> None:
    query = query_named(name, catalog())
    expected = fetched(connection, query.sql, bound(query, {}))
    require_forms(trace.query(name), expected, "run", name, trace.path)


def test_forms_of_every_type(
    trace: traceql.Run, connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    expected = fetched(connection, TYPES)
    require_forms(trace.sql(TYPES), expected, "sql", trace.path, TYPES)
    file = tmp_path / "rows.parquet"
    file.write_bytes(process("sql", trace.path, TYPES, "--format", "parquet").stdout)
    assert fetched(connection, f"FROM '{file}'") == expected


@pytest.mark.parametrize(
    ("names", "distinct"),
    [(["a_1", "a", "a", "a"], ["a_1", "a", "a_2", "a_3"]), (["a", "A"], ["a", "A"])],
)
def test_no_column_hides_another(
    names: list[str], distinct: list[str], trace: traceql.Run, tmp_path: Path
) -> None:
    statement = "SELECT " + ", ".join(f"{n} AS {name}" for n, name in enumerate(names))
    result = trace.sql(statement)
    assert result.columns == list(result.df().columns) == distinct
    assert list(result.rows()[0].values()) == list(range(len(names)))
    assert list(json.loads(output("sql", trace.path, statement, "--format", "json"))[0]) == distinct
    header, _ = output("sql", trace.path, statement, "--format", "csv").splitlines()
    assert header.split(",") == distinct


# An expression of each type that Arrow, Python, JSON or Parquet has no equal of, its value in
# Python, and its cell in CSV and JSON. The texts are those that DuckDB itself prints.
_ODD = {
    "340282366920938463463374607431768211455::UHUGEINT": (str(2**128 - 1),) * 3,
    "'101'::BIT": ("101",) * 3,
    "TIMETZ '01:02:03+02'": ("01:02:03+02",) * 3,
    "INTERVAL '1 month 2 days'": ("1 month 2 days",) * 3,
    "[INTERVAL 1 DAY]": ("[1 day]",) * 3,
    "{'BIT': 1}": ({"BIT": 1}, '{"BIT": 1}', {"BIT": 1}),
    "'a'::ENUM ('a', 'BIT')": ("a", "a", "a"),
    r"'\x00\xFFa\x5C'::BLOB": (b"\x00\xffa\\", r"\x00\xFFa\x5C", r"\x00\xFFa\x5C"),
    "123456789012345678901.125::DECIMAL(38, 3)": (
        Decimal("123456789012345678901.125"),
        "123456789012345678901.125",
        123456789012345678901.125,
    ),
    "'inf'::DOUBLE": (float("inf"), "inf", None),
    "[MAP {'a': 1}]": ([{"a": 1}], '[{"a": 1}]', [{"a": 1}]),
    "{'m': MAP {DATE '2024-01-02': 1}}": (
        {"m": {date(2024, 1, 2): 1}}, '{"m": {"2024-01-02": 1}}', {"m": {"2024-01-02": 1}},
    ),
    "MAP {[1]: 2}": ([([1], 2)], "[[[1], 2]]", [[[1], 2]]),
    "'a' || chr(13) || 'b'": ("a\rb", "a\rb", "a\rb"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("expression", _ODD)
def test_forms_of_an_odd_type(expression: str, trace: traceql.Run) -> None:
    value, in_csv, in_json = _ODD[expression]
    statement = f"SELECT {expression} AS x, 7 AS y"
    result = trace.sql(statement)
    assert result.rows() == [{"x": value, "y": 7}]
    assert result.df()["x"][0] == value
    text = output("sql", trace.path, statement, "--format", "csv")
    assert list(csv.DictReader(io.StringIO(text, newline=""))) == [{"x": in_csv, "y": "7"}]
    assert json.loads(output("sql", trace.path, statement, "--format", "json")) == [
        {"x": in_json, "y": 7}
    ]
    parquet = called("sql", trace.path, statement, "--format", "parquet").stdout
    assert pq.read_table(io.BytesIO(parquet)).column("y").to_pylist() == [7]


@pytest.mark.parametrize("value", ["DATE '-infinity'", "TIMESTAMP '290000-01-01'"])
def test_a_date_that_python_does_not_have_names_its_column(value: str, trace: traceql.Run) -> None:
    statement = f"SELECT {value} AS day"
    with pytest.raises(traceql.TraceqlError, match=r'column "day" .* years 1 to 9999'):
        trace.sql(statement).rows()
    for format_ in ("table", "csv", "json"):
        said = refusal("sql", trace.path, statement, "--format", format_)
        assert said.endswith('select CAST("day" AS VARCHAR)')
