"""Every form of a result holds what DuckDB's own cursor fetches from a copy of the database."""

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import databases
import duckdb
import pyarrow.parquet as pq
import pytest
from command_line import output, process

import traceql
from traceql.query import bound, catalog, query_named

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
def trace() -> traceql.Trace:
    return databases.trace(RUN)


@pytest.fixture(scope="module")
def connection(
    trace: traceql.Trace, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Shares nothing with the trace, neither the file nor the way from DuckDB to Python."""
    copy = tmp_path_factory.mktemp("forms") / "copy.duckdb"
    shutil.copyfile(trace.path, copy)
    with duckdb.connect(str(copy), read_only=True) as con:
        yield con


def fetched(con: duckdb.DuckDBPyConnection, sql: str, parameters: Row | None = None) -> list[Row]:
    cursor = con.execute(sql, parameters or {})
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def answer(con: duckdb.DuckDBPyConnection, name: str) -> list[Row]:
    query = query_named(name, catalog())
    rows = fetched(con, query.sql, bound(query, {}))
    assert rows, f"{name} has no rows to compare"
    return rows


def of_frame(result: traceql.Result) -> list[Row]:
    """A DataFrame's rows, with None for what pandas knows to be missing."""
    import pandas as pd

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


@pytest.mark.parametrize("name", QUERIES)
def test_forms_of_a_canned_query(
    name: str, trace: traceql.Trace, connection: duckdb.DuckDBPyConnection
) -> None:
    expected = answer(connection, name)
    result = trace.run(name)
    assert result.columns == list(expected[0])
    assert len(result) == len(expected)
    assert result.rows() == expected
    assert list(result) == expected
    assert of_frame(result) == expected
    assert json.loads(output("run", name, trace.path, "--format", "json")) == expected
    text = output("run", name, trace.path, "--format", "csv")
    assert of_csv(text, expected) == expected


def test_forms_of_every_type(trace: traceql.Trace, connection: duckdb.DuckDBPyConnection) -> None:
    expected = fetched(connection, TYPES)
    assert len(expected) == 3
    result = trace.sql(TYPES)
    assert result.rows() == expected
    assert of_frame(result) == expected
    assert json.loads(output("sql", trace.path, TYPES, "--format", "json")) == expected
    assert of_csv(output("sql", trace.path, TYPES, "--format", "csv"), expected) == expected


@pytest.mark.slow
def test_parquet_holds_the_same_rows(
    trace: traceql.Trace, connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    file = tmp_path / "rows.parquet"
    file.write_bytes(process("sql", trace.path, TYPES, "--format", "parquet").stdout)
    assert fetched(connection, f"FROM '{file}'") == fetched(connection, TYPES)
    assert pq.read_table(file).num_rows == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", catalog())
def test_rows_of_every_canned_query(
    name: str, trace: traceql.Trace, connection: duckdb.DuckDBPyConnection
) -> None:
    query = query_named(name, catalog())
    expected = fetched(connection, query.sql, bound(query, {}))
    result = trace.run(name)
    assert result.rows() == expected
    assert of_frame(result) == expected
