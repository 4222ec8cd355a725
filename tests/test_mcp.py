"""An assistant asks by the Model Context Protocol: the SDK's own client talks to the command."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import command_line
import databases
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import traceql
from traceql.errors import QueryInvalid
from traceql.present.mcp.answers import Databases
from traceql.present.mcp.server import TOOLS, Calls
from traceql.sql.query import catalog

ENDLESS = "SELECT COUNT(*) FROM range(1000000000) AS a, range(1000000000) AS b"
SQL = next(tool for tool in TOOLS if tool.name == "sql")


class Assistant:
    """A client of one process, with the answers of its tools as values."""

    def __init__(self, client: Client, portal: BlockingPortal) -> None:
        self.client = client
        self.portal = portal

    def text(self, tool: str, *, is_error: bool = False, **arguments: Any) -> str:
        result = self.portal.call(self.client.call_tool, tool, arguments)
        (content,) = result.content
        assert content.type == "text"
        assert result.is_error == is_error, content.text
        return str(content.text)

    def answer(self, tool: str, **arguments: Any) -> Any:
        return json.loads(self.text(tool, **arguments))

    def refusal(self, tool: str, **arguments: Any) -> str:
        text = self.text(tool, is_error=True, **arguments)
        assert "\n" not in text
        return text


@contextmanager
def conversation(*paths: Path, cwd: Path) -> Iterator[Assistant]:
    """With a process of its own, which writes nothing to stderr."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", command_line.PROGRAM, "mcp", *map(str, paths)],
        env=dict(os.environ),
        cwd=cwd,
    )
    log = cwd / "stderr.txt"
    with log.open("w") as errors, start_blocking_portal() as portal:
        client = Client(stdio_client(command, errlog=errors))
        with portal.wrap_async_context_manager(client):
            yield Assistant(client, portal)
    assert log.read_text() == ""
    log.unlink()


@pytest.fixture(scope="module")
def trace() -> traceql.Run:
    return databases.trace("qwen3-8b-tp1-graph")


@pytest.fixture(scope="module")
def assistant(trace: traceql.Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assistant]:
    with conversation(trace.path, cwd=tmp_path_factory.mktemp("mcp")) as assistant:
        yield assistant


def test_every_tool_says_that_it_only_reads(assistant: Assistant) -> None:
    listed = assistant.portal.call(assistant.client.list_tools).tools
    assert [tool.name for tool in listed] == [tool.name for tool in TOOLS]
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed)


@pytest.mark.slow
def test_an_assistant_goes_from_the_findings_to_the_rows_that_show_them(tmp_path: Path) -> None:
    trace = databases.trace("qwen3-32b-tp4-graph-nccl")
    with conversation(trace.path, cwd=tmp_path) as assistant:
        answer = assistant.answer("findings")
        found = answer["findings"]
        shown = assistant.answer("run_query", **found[0]["run_query"])
    expected = trace.query("overview.findings").rows()
    assert [row["headline"] for row in found] == [row["headline"] for row in expected]
    assert answer["undecided"]["rows"]
    name, parameters = expected[0]["query"], dict(expected[0]["parameters"])
    assert found[0]["run_query"] == {"name": name, "parameters": parameters}
    rows = trace.query(name, **parameters)
    assert shown["columns"] == rows.columns
    assert shown["rows"] == [list(row.values()) for row in rows][:50]
    assert shown["total_rows"] == len(rows)


def test_a_query_says_what_its_rows_are_and_why_there_are_none(
    assistant: Assistant, trace: traceql.Run
) -> None:
    assert [row["name"] for row in assistant.answer("queries")] == list(catalog())
    (described,) = assistant.answer("queries", names=["idle.host"])
    assert list(described["columns"]) == trace.query("idle.host").columns
    assert described["columns"]["idle_ns"].endswith("ns.")
    assert described["parameters"]["rank"]["type"] == "int"
    assert "sql" not in described
    (with_sql,) = assistant.answer("queries", names=["idle.host"], sql=True)
    assert "SELECT" in with_sql["sql"]
    answer = assistant.answer("run_query", name="ep.balance")
    assert answer["rows"] == []
    assert answer["why_no_rows"] == trace.queries["ep.balance"].head.empty


def test_tables_definitions_and_databases_are_described(
    assistant: Assistant, trace: traceql.Run
) -> None:
    tables = {row["name"]: row["rows"] for row in assistant.answer("tables")}
    assert tables.keys() >= {"kernel", "gap", "finding"}
    assert all(tables.values())
    (gap,) = assistant.answer("tables", names=["gap"])
    assert gap["columns"]["dur"].startswith("BIGINT: ")
    (row,) = assistant.answer("databases")
    assert (row["database"], row["ranks"], row["steps"]) == (str(trace.path), [0], 9)

    assert "Communication" in assistant.answer("definitions")["sections"]
    text = assistant.text("definitions", section="communication")
    assert text.startswith("## Communication")
    assert "### Stragglers" in text

    client, call = assistant.client, assistant.portal.call
    (resource,) = call(client.list_resources).resources
    (contents,) = call(client.read_resource, resource.uri).contents
    assert getattr(contents, "text", "").startswith("# Definitions")


def test_a_huge_result_comes_in_parts(assistant: Assistant, trace: traceql.Run) -> None:
    statement = "SELECT id, dur FROM slice ORDER BY id"
    expected = [list(row.values()) for row in trace.sql(statement)]
    first = assistant.answer("sql", statement=statement)
    assert first["total_rows"] == len(expected) > 9_000
    assert first["rows"] == expected[:50]
    assert first["next_offset"] == 50
    second = assistant.answer("sql", statement=statement, offset=4_090, max_rows=1_000)
    assert second["rows"] == expected[4_090:5_090]  # from two batches
    last = assistant.answer("sql", statement=statement, offset=len(expected) - 1)
    assert last["rows"] == expected[-1:]
    assert "next_offset" not in last
    top = assistant.answer("run_query", name="kernels.top", parameters={"limit": 3})
    assert (top["total_rows"], "limit = 3" in top["limited"]) == (3, True)


@pytest.mark.slow
def test_an_answer_has_no_more_text_than_an_assistant_can_read(assistant: Assistant) -> None:
    wide = "SELECT range AS n, repeat('x', 900) AS text FROM range(1000000)"
    text = assistant.text("sql", statement=wide, max_rows=1_000)
    assert len(text) < 45_000
    part = json.loads(text)
    assert part["total_rows"] == 1_000_000
    assert part["next_offset"] == len(part["rows"]) > 10
    after = assistant.answer("sql", statement=wide, offset=part["next_offset"])
    assert after["rows"][0][0] == part["next_offset"]

    long = assistant.answer("sql", statement="SELECT repeat('x', 5000000) AS text")
    assert len(long["rows"][0][0]) == 1_000
    assert long["shortened"].startswith("1 value")


@pytest.mark.slow
def test_nothing_is_written_and_no_other_file_is_read(
    assistant: Assistant, trace: traceql.Run, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    before = trace.path.read_bytes()
    for statement, why in (
        ("CREATE TABLE mine AS SELECT 1", "read-only"),
        (f"FROM '{secret}'", "disabled"),
        (f"COPY slice TO '{tmp_path / 'out.csv'}'", "read-only"),
        ("SELECT 1; SELECT 2", "more than one statement"),
    ):
        assert why in assistant.refusal("sql", statement=statement), statement
    for name in (str(secret), "../secret.csv", "/etc/passwd", ""):
        assert "no database" in assistant.refusal("findings", database=name)
    assert trace.path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [secret]


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("sql", {}, "sql: 'statement' is a required property (it takes: statement, database, "),
        ("sql", {"statement": 7}, "sql: statement: 7 is not of type 'string'"),
        ("sql", {"statement": "FROM slice", "rows": 5}, "'rows' was unexpected"),
        ("sql", {"statement": "FROM slice", "max_rows": 10**6}, "greater than the maximum of 1000"),
        ("sql", {"statement": "SELEC"}, "syntax error"),
        ("tables", {"names": ["kernels"]}, "did you mean 'kernel'"),
        ("run_query", {"name": "kernel.top"}, "did you mean 'kernels.top'"),
        ("run_query", {"name": "kernels.top", "parameters": {"ran": 1}}, "no parameter 'ran'"),
        ("run_query", {"name": "kernels.top", "parameters": {"rank": "x"}}, "not of type int"),
        ("query", {}, "no tool 'query'; did you mean"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_that_says_what_to_correct(
    assistant: Assistant, tool: str, arguments: dict[str, Any], why: str
) -> None:
    assert why in assistant.refusal(tool, **arguments)
    assert assistant.answer("sql", statement="SELECT 7 AS n", database=None)["rows"] == [[7]]


@pytest.mark.slow
def test_a_folder_is_listed_again_and_several_databases_need_a_name(
    trace: traceql.Run, tmp_path: Path
) -> None:
    with conversation(cwd=tmp_path) as assistant:
        assert "no *.duckdb file in ." in assistant.refusal("findings")
        (tmp_path / "one.duckdb").symlink_to(trace.path)
        assert assistant.answer("sql", statement="SELECT 1 AS n")["rows"] == [[1]]
        (tmp_path / "two.duckdb").write_text("nothing")
        said = assistant.refusal("sql", statement="SELECT 1")
        assert said == "several databases: name one of one.duckdb, two.duckdb"
        one = assistant.answer("sql", statement="SELECT 1 AS n", database="one.duckdb")
        assert one["rows"] == [[1]]
        listed = assistant.answer("databases")
        assert [row["database"] for row in listed] == ["one.duckdb", "two.duckdb"]
        assert "two.duckdb is not a traceql database" in listed[1]["error"]
        (tmp_path / "one.duckdb").unlink()
        assert "no database 'one.duckdb'" in assistant.refusal("findings", database="one.duckdb")


@pytest.mark.slow
def test_calls_that_take_too_long_or_are_cancelled_end_and_the_next_one_is_answered(
    trace: traceql.Run,
) -> None:
    async def main() -> Any:
        with anyio.fail_after(20):
            calls = Calls(Databases([trace.path]), timeout_s=0.5)
            for statement in (ENDLESS, "FROM range(1000000000000)"):
                with pytest.raises(QueryInvalid, match=r"timeout after 0\.5 s"):
                    await calls.answer(SQL, {"statement": statement})
            calls = Calls(Databases([trace.path]))
            with anyio.move_on_after(0.5) as cancelled:
                await calls.answer(SQL, {"statement": ENDLESS})
            assert cancelled.cancelled_caught
            return await calls.answer(SQL, {"statement": "SELECT 7 AS n"})

    assert anyio.run(main)["rows"] == [[7]]


@pytest.mark.slow
def test_the_process_ends_with_its_input_although_a_statement_runs(
    trace: traceql.Run, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", command_line.PROGRAM, "mcp", str(trace.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin
    for message in (
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
         "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call",
         "params": {"name": "sql", "arguments": {"statement": ENDLESS}}},
    ):  # fmt: skip
        process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        process.stdin.flush()
        time.sleep(0.5)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, b"")
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
