"""What each table says of itself is true: what it reads, its columns, whose rows it needs."""

import ast
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import databases
import duckdb
import pytest
import sqlglot
from databases import EXAMPLES, SHARED
from sqlglot import exp

import traceql
from traceql.analysis.findings.catalog import FindingFile, finding_files
from traceql.database.loading import load as loading
from traceql.database.loading.draft import every_table
from traceql.readers.dialects.registry import table_folders
from traceql.sql import execute
from traceql.sql.definition import Definition, Kind, Schema, Scope, table_of
from traceql.sql.registry import TABLE_FOLDERS, definitions

DEFINED = definitions()
DERIVED = [one for one in DEFINED.values() if one.kind is not Kind.SOURCE]
MADE = [one for one in DERIVED if not one.kind.is_macro]
WITH_COLUMNS = [one for one in DEFINED.values() if not one.kind.is_macro]
_STATEMENT = re.compile(r"\s*(--[^\n]*\n\s*)*(SELECT|WITH|FROM)\b")
_DEFINED_NAME = re.compile(rf"\b(FROM|JOIN)\s+({'|'.join(DEFINED)})\b")
_EXAMPLE = "qwen3-32b-tp4-graph-nccl"
_GIVEN = "query_table"  # reads the table of that name, which is given to a table macro


def names(found: list[Definition]) -> list[str]:
    return [one.name for one in found]


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


@pytest.mark.parametrize("one", DERIVED, ids=names(DERIVED))
def test_head_names_what_the_sql_reads(one: Definition) -> None:
    if one.kind is Kind.MACRO:
        assert set(one.needs) == called_by_macro(one)
        return
    read = set().union(*map(read_by, statements(one)), set()) - {one.name, "incoming", _GIVEN}
    assert set(one.needs) == read | set(map(table_of, one.empty_unless))
    assert list(one.needs) == sorted(set(one.needs))


FINDING_FILES = finding_files()


@pytest.mark.parametrize("file", FINDING_FILES, ids=[file.name for file in FINDING_FILES])
def test_head_of_a_finding_names_what_its_sql_reads(file: FindingFile) -> None:
    assert set(file.needs) == read_by(file.sql)
    assert list(file.needs) == sorted(set(file.needs))


def test_what_is_needed_is_defined() -> None:
    for one in DEFINED.values():
        assert set(one.needs) <= DEFINED.keys(), one.name


def test_each_name_is_defined_once() -> None:
    files = [
        p.stem
        for f in (*TABLE_FOLDERS, *table_folders())
        for p in f.iterdir()
        if p.suffix in (".sql", ".py")
    ]
    defined = [name for name in files if name != "__init__"]
    assert sorted(defined) == sorted(DEFINED.keys() - {"finding"})


def test_every_scratch_table_is_read() -> None:
    needed = {name for one in DEFINED.values() for name in one.needs}
    scratch = {one.name for one in DEFINED.values() if one.kind is Kind.SCRATCH}
    assert scratch - needed == set()


# --- what a table is made of, on a real trace ------------------------------------------------


@cache
def example() -> duckdb.DuckDBPyConnection:
    """The tables of a real run and its scratch tables, kept."""
    con = duckdb.connect()
    _copy_sources(con, databases.trace(_EXAMPLE).path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "_drop_unread", lambda *_: None)
        patch.setattr(execute, "_exists", lambda *_: True)  # computed, not created empty
        patch.setattr(execute._Empty, "has", lambda *_: False)
        con.execute("ATTACH ':memory:' AS scratch")
        derived = {one.name: one for one in DERIVED}
        execute._make_all(con, derived, execute._Empty(con, {}), 2, lambda *_: None)
    con.execute(f"SET search_path = '{execute.search_path('memory')},scratch.main'")
    return con


def _copy_sources(con: duckdb.DuckDBPyConnection, database: Path, where: str = "TRUE") -> None:
    con.execute(f"ATTACH '{database}' AS loaded (READ_ONLY)")
    execute.create_sources(con)
    for one in DEFINED.values():
        if one.kind is Kind.SOURCE:
            has_rank = any(column.name == "rank" for column in one.columns)
            condition = where if has_rank else "TRUE"
            rows = f"SELECT * FROM loaded.{one.schema}.{one.name} WHERE {condition}"
            con.execute(f"INSERT INTO {one.name} {rows}")
    if where != "TRUE":  # arguments of activities have no rank
        con.execute("DELETE FROM activity WHERE id NOT IN (SELECT id FROM slice)")
    con.execute("DETACH loaded")


def described(con: duckdb.DuckDBPyConnection, name: str) -> list[tuple[str, str]]:
    found = con.execute(f"DESCRIBE SELECT * FROM {name}").fetchall()
    return [(column, kind) for column, kind, *_ in found]


@pytest.mark.slow
@pytest.mark.parametrize("one", WITH_COLUMNS, ids=names(WITH_COLUMNS))
def test_head_names_the_columns(one: Definition) -> None:
    assert described(example(), one.name) == [(c.name, c.type) for c in one.columns]


@pytest.mark.slow
@pytest.mark.parametrize("one", MADE, ids=names(MADE))
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


@cache
def alone(rank: int) -> duckdb.DuckDBPyConnection:
    """Every table, made from one rank's rows."""
    con = duckdb.connect()
    _copy_sources(con, databases.trace(_EXAMPLE).path, f"rank = {rank}")
    execute.make_tables(con, every_table())
    return con


OF_ONE_RANK = [
    one
    for one in MADE
    if one.scope is Scope.RANK
    and one.kind.is_kept
    and any(column.name == "rank" for column in one.columns)
]


@pytest.mark.slow
@pytest.mark.parametrize("one", OF_ONE_RANK, ids=names(OF_ONE_RANK))
def test_a_rank_alone_has_the_same_rows_but_for_where_ids_begin(one: Definition) -> None:
    numbered = {"step_id"}  # slices keep the numbers that loading gave them
    columns = [
        f"{c.name} - MIN({c.name}) OVER ()" if c.name in numbered else c.name for c in one.columns
    ]
    for rank in (0, 2):
        rows = f"SELECT {', '.join(columns)} FROM {one.name} WHERE rank = {rank} ORDER BY ALL"
        found = alone(rank).execute(rows).fetchall()
        assert found == example().execute(rows).fetchall()


# --- comments --------------------------------------------------------------------------------


def test_comments_say_what_heads_say() -> None:
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
SAID = [one for one in definitions().values() if one.empty_unless]
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
        check_what_is_created_empty(con)


@pytest.mark.slow
def test_tables_created_empty_would_be_empty_with_a_map_of_graph_nodes(tmp_path: Path) -> None:
    """Which tells layers of kernels that no module encloses."""
    (trace,) = (EXAMPLES / "qwen3-8b-tp1-graph").glob("*.json.gz")
    document = json.loads(gzip.decompress(trace.read_bytes()))
    kernels = [e for e in document["traceEvents"] if e.get("cat") == "kernel"]
    for number, kernel in enumerate(kernels):
        kernel["args"]["graph node id"] = number
    names = {str(n): f"model.layers.{n % 36}.self_attn.attn" for n in range(len(kernels))}
    (tmp_path / "rank0.json").write_text(json.dumps(document))
    (tmp_path / "graph_nodes.json").write_text(json.dumps({"0": names}))
    with everything([tmp_path / "rank0.json"], tmp_path / "run.duckdb") as con:
        assert count(con, "kernel_layer_by_module") > 0
        check_what_is_created_empty(con)


def check_what_is_created_empty(con: duckdb.DuckDBPyConnection) -> None:
    for one in SAID:
        if not any(execute._exists(con, line) for line in one.empty_unless):
            assert rows_computed(con, one) == 0, one.name


@contextmanager
def everything(paths: list[Path], database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """All tables of a load, the scratch ones too, on a connection that makes tables elsewhere."""
    con = duckdb.connect()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "make_tables", lambda *_, **__: None)
        traceql.load(paths, database)
        patch.setattr(execute, "_drop_unread", lambda *_: None)
        patch.setattr(execute._Empty, "has", lambda *_: False)
        con.execute(f"ATTACH '{database}' AS loaded")
        con.execute("USE loaded")
        con.execute("ATTACH ':memory:' AS scratch")
        derived = {n: one for n, one in definitions().items() if one.kind != "source"}
        execute._make_all(con, derived, execute._Empty(con, {}), 2, lambda *_: None)
    path = f"memory.main,{execute.search_path('loaded')},scratch.main"
    con.execute(f"SET search_path = '{path}'")
    yield con
    con.close()


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


def test_a_condition_is_one_of_the_statement() -> None:
    """Also of tables that no recording above fills."""
    with_condition = [(one, line) for one in SAID for line in one.empty_unless if " WHERE " in line]
    assert with_condition
    for one, line in with_condition:
        _, _, condition = line.partition(" WHERE ")
        statement = one.source.rpartition("@column")[2]
        assert re.search(rf"(WHERE|AND)\s+(\w+\.)?{re.escape(condition)}", statement), one.name


def test_an_empty_table_has_the_columns_of_its_head() -> None:
    """That these are the columns of a computed one, test_definitions.py checks."""
    con = duckdb.connect()
    one = definitions()["collective"]
    (needed,) = one.empty_unless
    con.execute(f"CREATE TABLE {needed} (kernel_id BIGINT)")
    execute.make(con, one, one.name)
    found = con.execute("SELECT column_name, column_type FROM (DESCRIBE collective)").fetchall()
    assert found == [(column.name, column.type) for column in one.columns]
    assert count(con, "collective") == 0
