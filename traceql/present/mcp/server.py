"""Serves the tools over the stdin and stdout of this process, with the SDK of the protocol."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from traceql.errors import QueryInvalid, TraceqlError, reason
from traceql.present.mcp import answers
from traceql.present.mcp.answers import (
    DEFAULT_ROWS,
    MAX_ROWS,
    Arguments,
    Databases,
    all_definitions,
)
from traceql.util.resources import __version__
from traceql.util.text import one_line, suggestion

INSTRUCTIONS = (
    "traceql has profiler traces of LLM inference on GPUs (vLLM) in databases of exact events: "
    "where did the time of a run go, and why? To find the cause of a slow run, call findings, and "
    "follow the evidence of each finding with run_query. Narrow it down with other queries, by "
    "rank, phase and step. Use sql where no query fits; tables describes the columns. "
    "Names of columns carry units: _ns is nanoseconds, _pct percent; ts and dur are nanoseconds. "
    "null means unknown, never zero. Before you explain a number, read its definition: queries "
    "describes the columns of a query, definitions the terms. Everything is read-only."
)

_Schema = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        text: its purpose, by which an assistant chooses it.
        properties: JSON schemas of the arguments.
    """

    name: str
    text: str
    answer: Callable[[Databases, Arguments], Any]
    properties: Mapping[str, _Schema] = field(default_factory=dict)
    required: Sequence[str] = ()

    @property
    def schema(self) -> _Schema:
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


def _text(description: str, **more: Any) -> _Schema:
    return {"type": "string", "description": description, **more}


def _names(description: str) -> _Schema:
    texts = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    return {**texts, "description": description}


_DATABASE = _text("Name of the database, from the tool databases; needed if there are several.")
_PAGE: dict[str, _Schema] = {
    "max_rows": {
        "type": "integer", "minimum": 1, "maximum": MAX_ROWS, "default": DEFAULT_ROWS,
        "description": "Maximum number of rows to return; total_rows is the number of all rows.",
    },
    "offset": {
        "type": "integer", "minimum": 0, "default": 0,
        "description": "Rows to skip: next_offset of the previous answer.",
    },
}  # fmt: skip

TOOLS = (
    Tool("findings",
        "Start here: what costs the most time in a run. Each finding has a sentence with its "
        "numbers, a severity, advice, and as evidence the query that shows the details, with its "
        "parameters for run_query. Also the numbers that sum up the run, a row for each rank, and "
        "the failed checks (if there are any, report them before you rely on other numbers).",
        answers.findings, {"database": _DATABASE},
    ),
    Tool("queries",
        "The canned queries: time breakdown, idle gaps and their host cause, communication wait "
        "and transfer, stragglers, layers, kernels, steps, requests, telemetry ... Without names: "
        "each name, and what one of its rows is. With names: definition, parameters with their "
        "defaults, columns with their units.",
        answers.queries,
        {
            "names": _names("Queries to describe."),
            "sql": {
                "type": "boolean",
                "default": False,
                "description": "Also the SQL, to adapt it for the tool sql.",
            },
        },
    ),
    Tool("run_query",
        "Run a canned query. Prefer it to sql of your own: its numbers are defined and tested.",
        answers.run_query,
        {
            "name": _text("Such as time.breakdown."),
            "parameters": {
                "type": "object",
                "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
                "description": 'By name, such as {"rank": 0, "phase": "decode"}; '
                "the tool queries lists them.",
            },
            "database": _DATABASE,
            **_PAGE,
        },
        ("name",),
    ),
    Tool("tables",
        "The tables for the tool sql. Without names: each name, and what one of its rows is. "
        "With names: the type, meaning and unit of every column.",
        answers.tables, {"names": _names("Tables to describe."), "database": _DATABASE},
    ),
    Tool("sql",
        "Run one read-only statement of DuckDB's SQL, where no canned query fits. It cannot write, "
        "and cannot read other files. Aggregate in SQL instead of reading many rows, and "
        "use ORDER BY if you read them in parts.",
        answers.sql,
        {"statement": _text("Such as SELECT phase, COUNT(*) ..."), "database": _DATABASE, **_PAGE},
        ("statement",),
    ),
    Tool("definitions",
        "Definitions of terms and numbers: glossary, activity of a GPU, causes of idle time, wait "
        "and transfer, stragglers, steps ... Without a section: the headings.",
        answers.definitions, {"section": _text("A heading, such as Communication.")},
    ),
    Tool("databases",
        "The databases, each a run with its ranks, devices, steps and number of findings.",
        answers.databases,
    ),
)  # fmt: skip


_DEFINITIONS = "traceql://definitions"
_TIMEOUT_S = 60  # of one call
_BETWEEN_INTERRUPTS_S = 0.05
_Context = ServerRequestContext[Any]


def serve(databases: Databases) -> None:
    """Answers an assistant until stdin ends."""
    anyio.run(_serve, databases)


async def _serve(databases: Databases) -> None:
    calls = Calls(databases)

    async def call(_context: _Context, called: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            given = called.arguments or {}
            arguments = {name: value for name, value in given.items() if value is not None}
            answer = await calls.answer(_validated(called.name, arguments), arguments)
        except TraceqlError as error:
            return _result(one_line(str(error)), is_error=True)
        except (OSError, MemoryError) as error:
            return _result(reason(error), is_error=True)
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return _result(text)

    server: Server[Any] = Server(
        "traceql", version=__version__, instructions=INSTRUCTIONS, on_list_tools=_list_tools,
        on_call_tool=call, on_list_resources=_list_resources, on_read_resource=_read_resource,
    )  # fmt: skip
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class Calls:
    """The calls of one client, one at a time: DuckDB uses all processors for each."""

    def __init__(self, databases: Databases, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._databases = databases
        self._timeout_s = timeout_s
        self._turn = anyio.Lock()

    async def answer(self, tool: Tool, arguments: Arguments) -> Any:
        """The tool's answer.

        Raises:
            QueryInvalid: timeout.
        """
        answers: list[Any] = []
        errors: list[Exception] = []
        done = anyio.Event()

        def run() -> None:
            try:
                answers.append(tool.answer(self._databases, arguments))
            except Exception as error:  # raised below, outside of the group of tasks
                errors.append(error)

        async def run_in_thread() -> None:
            with anyio.CancelScope(shield=True):  # a thread ends by itself, or when interrupted
                await anyio.to_thread.run_sync(run)
            done.set()

        async with self._turn, anyio.create_task_group() as tasks:
            tasks.start_soon(run_in_thread)
            try:
                with anyio.move_on_after(self._timeout_s) as limit:
                    await done.wait()
            finally:
                await self._interrupt_until(done)
        if errors and limit.cancelled_caught:
            raise QueryInvalid(
                f"timeout after {self._timeout_s:g} s; query less: one rank, step or phase"
            )
        if errors:
            raise errors[0]
        return answers[0]

    async def _interrupt_until(self, done: anyio.Event) -> None:
        """Interrupts repeatedly, because a call may run several statements."""
        with anyio.CancelScope(shield=True):
            while not done.is_set():
                self._databases.interrupt()
                with anyio.move_on_after(_BETWEEN_INTERRUPTS_S):
                    await done.wait()


def _validated(name: str, arguments: Arguments) -> Tool:
    """The tool of that name, if the arguments match its schema."""
    tools = {tool.name: tool for tool in TOOLS}
    if name not in tools:
        hint = suggestion(name, tools) or f"there are: {', '.join(tools)}"
        raise TraceqlError(f"no tool '{name}'; {hint}")
    tool = tools[name]
    if error := best_match(Draft202012Validator(tool.schema).iter_errors(arguments)):
        place = f"{error.json_path.removeprefix('$.')}: " if error.path else ""
        accepted = ", ".join(tool.properties) or "no arguments"
        raise TraceqlError(f"{name}: {place}{error.message} (it takes: {accepted})")
    return tool


def _result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], is_error=is_error)


async def _list_tools(
    _context: _Context, _page: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tools = [
        types.Tool(name=t.name, description=t.text, input_schema=t.schema, annotations=hints)
        for t in TOOLS
    ]
    return types.ListToolsResult(tools=tools)


async def _list_resources(
    _context: _Context, _page: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    definitions = types.Resource(
        uri=_DEFINITIONS,
        name="definitions",
        description="The glossary, and the definition of every number.",
        mime_type="text/markdown",
    )
    return types.ListResourcesResult(resources=[definitions])


async def _read_resource(
    _context: _Context, wanted: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    if wanted.uri != _DEFINITIONS:
        message = f"no resource '{wanted.uri}'; there is: {_DEFINITIONS}"
        raise MCPError(types.INVALID_PARAMS, message)
    contents = types.TextResourceContents(
        uri=_DEFINITIONS, mime_type="text/markdown", text=all_definitions()
    )
    return types.ReadResourceResult(contents=[contents])
