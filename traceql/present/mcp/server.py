"""Serves the tools over the stdin and stdout of this process, with the SDK of the protocol."""

import json
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
from traceql.present.mcp.answers import Arguments, Databases, all_definitions
from traceql.present.mcp.tools import INSTRUCTIONS, TOOLS, Tool
from traceql.util.resources import __version__
from traceql.util.text import one_line, suggestion

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
        "traceql",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=call,
        on_list_resources=_list_resources,
        on_read_resource=_read_resource,
    )
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
    only_reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=tool.name,
                description=tool.text,
                input_schema=tool.schema,
                annotations=only_reads,
            )
            for tool in TOOLS
        ]
    )


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
