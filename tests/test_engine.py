"""The trace processor: bundled and native engines, and query results as Arrow tables."""

import json
import socket
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from engine_server import serving

from traceql.errors import EngineError, TraceNotFound
from traceql.readers.trace_processor import (
    TraceProcessor,
    arrow_table,
    module_cache,
    open_trace_processor,
    will_compile,
)
from traceql.readers.trace_processor.backend import api

ROOT = Path(__file__).resolve().parent.parent
SLICES = "SELECT ts, dur, name, category FROM slice ORDER BY ts"
TRACE = json.dumps(
    {
        "traceEvents": [
            {"ph": "X", "cat": "kernel", "name": name, "pid": 1, "tid": 7, "ts": ts, "dur": dur}
            for name, ts, dur in (("gemm", 1, 2), ("größe", 4, 1.5), ("copy", 9, 0.001))
        ]
    },
    ensure_ascii=False,  # the bundled engine leaves escapes as they are
).encode()
ROWS = [
    {"ts": 1000, "dur": 2000, "name": "gemm", "category": "kernel"},
    {"ts": 4000, "dur": 1500, "name": "größe", "category": "kernel"},
    {"ts": 9000, "dur": 1, "name": "copy", "category": "kernel"},
]
COUNTING = "WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < {last})"


@pytest.fixture(scope="module")
def tp() -> Iterator[TraceProcessor]:
    with open_trace_processor() as tp:
        yield tp


@pytest.fixture(autouse=True)
def no_choice_of_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(module_cache.TRACE_PROCESSOR_VARIABLE, raising=False)


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """An executable that the official API starts as it would a native shell."""
    path = tmp_path / "trace_processor_shell"
    places = [str(ROOT), str(ROOT / "tests")]
    code = f"import sys\nsys.path[:0] = {places}\nfrom engine_server import main\nmain()\n"
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(0o755)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "traceql"


@pytest.fixture
def tiny_wasm(tmp_path: Path) -> Path:
    """A module that compiles at once, in place of the engine."""
    wasm = tmp_path / "v0" / "tiny.wasm"
    wasm.parent.mkdir()
    wasm.write_bytes(b"\0asm\1\0\0\0")
    return wasm


# --- engines ---------------------------------------------------------------------------------


def test_native_shell_that_the_environment_names_gives_the_same_rows(
    shell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(module_cache.TRACE_PROCESSOR_VARIABLE, str(shell))
    with open_trace_processor([TRACE]) as tp:
        assert tp.subprocess is not None
        assert arrow_table(tp, SLICES).to_pylist() == ROWS


def test_official_query_summary_and_status_work() -> None:
    spec = """metric_spec { id: "busy" value: "dur"
              query { sql { sql: "SELECT sum(dur) AS dur FROM slice" column_names: "dur" } } }"""
    with TraceProcessor(trace=iter([TRACE])) as tp:
        assert [row.name for row in tp.query(SLICES)] == ["gemm", "größe", "copy"]
        assert tp.trace_summary([spec]).metric_bundles[0].row[0].values[0].double_value == 3501
        assert tp._backend.status().human_readable_version.startswith("Perfetto v")


def test_bundled_engine_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(urllib.request, "urlretrieve", refuse)
    with open_trace_processor([TRACE]) as tp:
        assert arrow_table(tp, SLICES).to_pylist() == ROWS


def test_option_for_a_native_shell_is_refused() -> None:
    with pytest.raises(EngineError, match="native trace_processor_shell"):
        TraceProcessor(config=api.TraceProcessorConfig(fetch_latest_trace_processor=True))


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_shell_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    shell = tmp_path / "shell"
    with pytest.raises(EngineError, match=r"no trace processor at .*/shell; set TRACEQL_"):
        open_trace_processor(trace_processor=shell)
    shell.write_text(f"#!{sys.executable}\nraise SystemExit('GLIBC_2.99 not found')\n")
    with pytest.raises(EngineError, match=r"not executable; chmod \+x"):
        open_trace_processor(trace_processor=shell)
    shell.chmod(0o755)
    with pytest.raises(EngineError, match=r"does not start \(.*GLIBC_2.99 not found\)") as error:
        open_trace_processor(trace_processor=shell)
    assert "\n" not in str(error.value)


def test_garbage_is_rejected_by_both_engines(shell: Path) -> None:
    for choice in (None, shell):
        with pytest.raises(EngineError, match="rejected the trace: ") as error:
            open_trace_processor([b"this is no trace " * 1000], trace_processor=choice)
        assert "\n" not in str(error.value)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceNotFound, match=r"cannot read .*nothing\.json"):
        open_trace_processor(tmp_path / "nothing.json")


def test_wrong_sql_names_the_reason_and_leaves_the_engine_usable(tp: TraceProcessor) -> None:
    with pytest.raises(EngineError, match=r"rejected the query: no such table: nope$"):
        arrow_table(tp, "SELECT *\nFROM nope")
    assert arrow_table(tp, "SELECT 1 AS n").to_pylist() == [{"n": 1}]
    closed = open_trace_processor()
    closed.close()
    with pytest.raises(EngineError, match="closed; open it again"):
        arrow_table(closed, "SELECT 1")


# --- Arrow tables ----------------------------------------------------------------------------

VALUES = [0, 1, -1, 127, 128, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63)]


def test_integers_keep_every_bit(tp: TraceProcessor) -> None:
    # SQLite reads -(2**63) as a float, so it is computed.
    rows = ", ".join(f"({v})" if v > -(2**63) else f"({v + 1} - 1)" for v in VALUES)
    table = arrow_table(tp, f"WITH t(v) AS (VALUES {rows}) SELECT v FROM t")
    assert table.schema == pa.schema([("v", pa.int64())])
    assert table["v"].to_pylist() == VALUES


def test_types_and_nulls_are_kept(tp: TraceProcessor) -> None:
    table = arrow_table(
        tp,
        "WITH t(i, f, s, b, n, m) AS (VALUES (NULL, 0.5, 'a', x'00ff', NULL, 1),"
        " (-7, NULL, '', NULL, NULL, 2.5), (3, -1e300, NULL, x'', NULL, NULL),"
        " (4, 2.0, 'größe 日本 🚀', x'01', NULL, -4)) SELECT * FROM t",
    )
    assert [str(type_) for type_ in table.schema.types] == [
        "int64", "double", "string", "binary", "null", "double",
    ]  # fmt: skip
    assert list(map(tuple, (row.values() for row in table.to_pylist()))) == [
        (None, 0.5, "a", b"\0\xff", None, 1.0),
        (-7, None, "", None, None, 2.5),
        (3, -1e300, None, b"", None, None),
        (4, 2.0, "größe 日本 🚀", b"\x01", None, -4.0),
    ]


def test_http_engine_gives_equal_tables(tp: TraceProcessor) -> None:
    sql = COUNTING.format(last=49_999) + " SELECT x, nullif(x % 4, 0) AS q, 'ä' || x AS s FROM n"
    with serving() as server, TraceProcessor(addr=server.address) as remote:
        assert arrow_table(remote, sql).equals(arrow_table(tp, sql))


# --- the cache of compiled code --------------------------------------------------------------


def test_whether_the_engine_will_be_compiled_is_known(
    cache: Path, tiny_wasm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_cache, "bundled_wasm", lambda: tiny_wasm)
    assert will_compile()
    assert not will_compile("/usr/bin/trace_processor_shell")
    module_cache.compiled(tiny_wasm, module_cache.memory_plan())
    assert not will_compile()
    assert len(list(cache.glob("*.cwasm"))) == 1


@pytest.mark.parametrize("keep", [0, -1])
def test_corrupt_cache_is_rebuilt(cache: Path, tiny_wasm: Path, keep: int) -> None:
    module_cache.compiled(tiny_wasm, module_cache.RESERVED)
    (cached,) = cache.glob("*.cwasm")
    whole = cached.read_bytes()
    cached.write_bytes(whole[:keep])
    module_cache.compiled(tiny_wasm, module_cache.RESERVED)
    assert len(cached.read_bytes()) == len(whole)


def test_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, tiny_wasm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # a file is no directory
    _, module = module_cache.compiled(tiny_wasm, module_cache.RESERVED)
    assert module.exports == []
