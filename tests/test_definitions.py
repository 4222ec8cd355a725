"""Heads of tables against their SQL: what it reads, its columns, whose rows it needs."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import databases
import duckdb
import pytest
import sqlglot
from databases import EXAMPLES, SHARED
from sqlglot import exp

import traceql
from traceql.analysis.diagnosis.catalog import causes
from traceql.database.loading import load as loading
from traceql.sql import execute
from traceql.sql.definition import Definition, Kind, Schema, Scope, table_of
from traceql.sql.registry import definitions

DEFINED = definitions()
DERIVED = [one for one in DEFINED.values() if one.kind is not Kind.SOURCE]
MADE = [one for one in DERIVED if not one.kind.is_macro]
ROWS_OF_CAUSES = {one.table: one for one in causes().values()}
WITH_COLUMNS = [
    one for one in DEFINED.values() if not one.kind.is_macro and one.name not in ROWS_OF_CAUSES
]
_STATEMENT = re.compile(r"\s*(--[^\n]*\n\s*)*(SELECT|WITH|FROM)\b")
_DEFINED_NAME = re.compile(rf"\b(FROM|JOIN)\s+({'|'.join(DEFINED)})\b")
_EXAMPLE = "qwen3-32b-tp4-graph-nccl"
_FOLDER = TemporaryDirectory()
_GIVEN = "query_table"  # reads the table of that name, which is given to a table macro


def each(found: list[Definition]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("one", found, ids=[one.name for one in found])


# --- what a table needs, as sqlglot reads its SQL --------------------------------------------


def statements(one: Definition) -> Iterator[str]:
    """The SQL of a definition: its own, or every statement in a Python file.

    What a Python file formats must name no table: those stand in constants.
    """
    if not one.is_python:
        yield one.source
        return
    nodes = list(ast.walk(ast.parse(one.source)))
    formatted = [n for node in nodes if isinstance(node, ast.JoinedStr) for n in node.values]
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if node in formatted:
            assert not _DEFINED_NAME.search(node.value), one.name
        elif _STATEMENT.match(node.value):
            yield node.value


def read_by(sql: str) -> set[str]:
    """The tables and macros that a statement reads."""
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    own = {cte.alias for cte in tree.find_all(exp.CTE)}
    tables = {table.name for table in tree.find_all(exp.Table)} - own - {""}
    called = {function.name.lower() for function in tree.find_all(exp.Anonymous)}
    return tables | {name for name in called if name in DEFINED and DEFINED[name].kind.is_macro}


def called_by_macro(one: Definition) -> set[str]:
    others = [d.name for d in DEFINED.values() if d.kind.is_macro and d.name != one.name]
    return {name for name in others if re.search(rf"\b{name}\(", one.source)}


@each(DERIVED)
def test_head_names_what_the_sql_reads(one: Definition) -> None:
    if one.kind is Kind.MACRO:
        assert set(one.needs) == called_by_macro(one)
        return
    read = set().union(*map(read_by, statements(one)), set()) - {one.name, "incoming", _GIVEN}
    needs = [name for name in one.needs if name not in ROWS_OF_CAUSES]
    assert set(needs) == read | set(map(table_of, one.empty_unless))
    assert needs == sorted(set(needs))


def test_every_scratch_table_is_read() -> None:
    needed = {name for one in DEFINED.values() for name in one.needs}
    scratch = {one.name for one in DEFINED.values() if one.kind is Kind.SCRATCH}
    assert scratch - needed == set()


# --- what a table is made of, on a real trace ------------------------------------------------


@cache
def example() -> duckdb.DuckDBPyConnection:
    """The tables of a real run and its scratch tables."""
    return everything(databases.files(_EXAMPLE), Path(_FOLDER.name) / "run.duckdb")


def described(con: duckdb.DuckDBPyConnection, name: str) -> list[tuple[str, str]]:
    found = con.execute(f"DESCRIBE SELECT * FROM {name}").fetchall()
    return [(column, kind) for column, kind, *_ in found]


@pytest.mark.slow
@each(WITH_COLUMNS)
def test_head_names_the_columns(one: Definition) -> None:
    assert described(example(), one.name) == [(c.name, c.type) for c in one.columns]


@pytest.mark.slow
@pytest.mark.parametrize("table", ROWS_OF_CAUSES)
def test_a_cause_yields_what_the_diagnosis_reads(table: str) -> None:
    required = {"is_confirmed", "reason", "headline", "evidence", "remedy"}
    optional = {
        *("unknowns", "claims", "saving_ns", "gain_pct", "samples", "is_severe", "is_notable"),
        *("is_remark", "least_share", "fine", "phase", "rank", "ts", "dur", "parameters"),
    }
    columns = {name for name, _ in described(example(), table)}
    of_parameters = {value for _, value in ROWS_OF_CAUSES[table].parameters}
    assert required <= columns
    assert columns - required - optional <= of_parameters


@pytest.mark.slow
@each(MADE)
def test_table_is_made_where_only_what_it_needs_is(one: Definition) -> None:
    """The same rows: nothing is read that the head does not name."""
    whole = example()
    con = duckdb.connect()
    needed = {name: DEFINED[name] for name in one.needs}
    for name in _with_what_they_call(needed):
        con.execute(DEFINED[name].source)
    for name, other in needed.items():
        if not other.kind.is_macro:
            con.register("incoming", whole.sql(f"FROM {name}").to_arrow_table())
            con.execute(f"CREATE TABLE {name} AS FROM incoming")
            con.unregister("incoming")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "_exists", lambda *_: True)
        execute.make(con, one, one.name)
    counted = f"SELECT COUNT(*), BIT_XOR(hash(made)) FROM (FROM {one.name}) AS made"
    assert con.execute(counted).fetchall() == whole.execute(counted).fetchall()


def _with_what_they_call(needed: Mapping[str, Definition]) -> list[str]:
    macros = [name for name, one in needed.items() if one.kind.is_macro]
    return [n for m in macros for n in (*sorted(DEFINED[m].needs, reverse=True), m)]


# --- scope -----------------------------------------------------------------------------------


def test_tables_of_one_rank_need_no_table_of_the_run() -> None:
    found = [
        (one.name, name)
        for one in DEFINED.values()
        for name in one.needs
        if one.scope is Scope.RANK and DEFINED[name].scope is Scope.RUN
    ]
    assert found == []


# --- comments --------------------------------------------------------------------------------


def test_comments_are_those_of_the_heads() -> None:
    with traceql.open(databases.trace(_EXAMPLE).path) as trace:
        rows = trace.sql("SELECT table_name, column_name, comment FROM duckdb_columns()").rows()
        tables = trace.sql("SELECT table_name, comment FROM duckdb_tables()").rows()
    written = {(row["table_name"], row["column_name"]): row["comment"] for row in rows}
    summaries = {row["table_name"]: row["comment"] for row in tables}
    for one in WITH_COLUMNS:
        if one.kind.is_kept and one.name in summaries:
            assert summaries[one.name] == one.summary
        for column in one.columns if one.kind.is_kept else []:
            assert column.text.endswith("."), (one.name, column.name)
            if one.schema is Schema.MAIN:
                assert written[one.name, column.name] == column.text


# --- tables without rows -------------------------------------------------------------------------


DATA = Path(__file__).parent / "data"
PROFILERS = SHARED.parent / "profilers"
SAID = [one for one in WITH_COLUMNS if one.empty_unless]  # rows of causes are made only then
# Recordings, and a table that only they fill.
RECORDINGS = {
    "run": ([EXAMPLES / "qwen3-8b-tp2-batch16"], "telemetry"),
    "experts": ([DATA / "moe-dp2-tp2"], "collective_arrival"),
    "modules": ([DATA.parent / "recordings" / "qwen3moe-eager.json.gz"], "kernel_module"),
    "ncu": (
        [
            DATA / "nsys" / "qwen3-8b-2layers-eager.pt.trace.json.gz",
            DATA / "ncu" / "qwen3-8b-2layers-eager-raw-base.csv.gz",
        ],
        "profiled_kernel",
    ),
    "ascend": ([PROFILERS / "ascend" / "alexnet-910b-level1-text"], "operation_plane"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDINGS)
def test_tables_are_empty_without_what_their_heads_name(name: str, tmp_path: Path) -> None:
    paths, own = RECORDINGS[name]
    if not all(path.exists() for path in paths):
        pytest.skip(f"no recording of {name}")
    with everything(paths, tmp_path / "run.duckdb") as con:
        filled = [one for one in SAID if count(con, one.name)]
        assert own in [one.name for one in filled]
        for one in filled:
            assert rows_without(con, one) == 0, one.name
        for one in SAID:
            if not any(execute._exists(con, line) for line in one.empty_unless):
                assert rows_computed(con, one) == 0, one.name


def everything(paths: list[Path], database: Path) -> duckdb.DuckDBPyConnection:
    """All tables of a load, the scratch ones too, on a connection that makes tables elsewhere."""
    con = duckdb.connect()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "make_tables", lambda *_, **__: None)
        traceql.load(paths, database)
        patch.setattr(execute, "_drop_unread", lambda *_: None)
        patch.setattr(execute, "_exists", lambda *_: True)  # computed, not created empty
        patch.setattr(execute._Empty, "has", lambda *_: False)
        con.execute(f"ATTACH '{database}' AS loaded")
        con.execute("USE loaded")
        con.execute("ATTACH ':memory:' AS scratch")
        derived = {n: one for n, one in definitions().items() if one.kind != "source"}
        execute._make_all(con, derived, execute._Empty(con, {}), 2, lambda *_: None)
    path = f"memory.main,{execute.search_path('loaded')},scratch.main"
    con.execute(f"SET search_path = '{path}'")
    return con


def rows_without(con: duckdb.DuckDBPyConnection, one: Definition) -> int:
    """The rows of a table if it is made although what its head names is not there."""
    for line in one.empty_unless:
        needed, _, condition = line.partition(" WHERE ")
        other = definitions()[needed]
        place = f"loaded.{other.schema}" if other.kind.is_kept else "scratch"
        hidden = f"NOT coalesce({condition}, FALSE)" if condition else "FALSE"
        con.execute(f"CREATE VIEW memory.{needed} AS FROM {place}.{needed} WHERE {hidden}")
        assert not con.execute(f"SELECT EXISTS (FROM {line})").fetchall()[0][0]
    rows = rows_computed(con, one)
    for line in one.empty_unless:
        con.execute(f"DROP VIEW memory.{table_of(line)}")
    return rows


def rows_computed(con: duckdb.DuckDBPyConnection, one: Definition) -> int:
    """The rows of a table if it is computed, whatever its head says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "_exists", lambda *_: True)
        execute.make(con, one, one.name)
    rows = count(con, f"memory.{one.name}")
    con.execute(f"DROP TABLE memory.{one.name}")
    return rows


def count(con: duckdb.DuckDBPyConnection, table: str) -> int:
    return int(con.execute(f"SELECT COUNT(*) FROM {table}").fetchall()[0][0])
