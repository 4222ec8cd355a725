"""Tables have no rows without those that their heads name, on recordings that fill them."""

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from databases import EXAMPLES, SHARED

import traceql
from traceql.database.loading import load as loading
from traceql.sql import execute
from traceql.sql.definition import Definition, table_of
from traceql.sql.registry import definitions

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
