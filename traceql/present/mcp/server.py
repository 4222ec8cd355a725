"""Serves the tools over the stdin and stdout of this process, with the protocol's own SDK."""

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

from traceql.errors import TraceqlError, reason
from traceql.present.mcp.answers import Arguments
from traceql.present.mcp.calls import Calls
from traceql.present.mcp.databases import Databases
from traceql.present.mcp.definitions import all_definitions
from traceql.present.mcp.tools import INSTRUCTIONS, TOOLS, Tool
from traceql.util.resources import __version__
from traceql.util.text import one_line, suggestion

_DEFINITIONS = "traceql://definitions"
_Context = ServerRequestContext[Any]


def serve(databases: Databases) -> None:
    """Answers an assistant until stdin ends."""
    anyio.run(_served, databases)


async def _served(databases: Databases) -> None:
    calls = Calls(databases)

    async def answer(
        _context: _Context, called: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            given = called.arguments or {}
            arguments = {name: value for name, value in given.items() if value is not None}
            return _result(await calls.answer(_checked(called.name, arguments), arguments))
        except TraceqlError as error:
            return _result(one_line(str(error)), is_error=True)
        except (OSError, MemoryError) as error:
            return _result(reason(error), is_error=True)

    server: Server[Any] = Server(
        "traceql",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=_tools,
        on_call_tool=answer,
        on_list_resources=_resources,
        on_read_resource=_resource,
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _checked(name: str, arguments: Arguments) -> Tool:
    """The tool of that name, if these are arguments for it."""
    tools = {tool.name: tool for tool in TOOLS}
    if name not in tools:
        hint = suggestion(name, tools) or f"there are: {', '.join(tools)}"
        raise TraceqlError(f"no tool '{name}'; {hint}")
    tool = tools[name]
    if error := best_match(Draft202012Validator(tool.schema).iter_errors(arguments)):
        place = f"{error.json_path.removeprefix('$.')}: " if error.path else ""
        raise TraceqlError(f"{name}: {place}{error.message} (it takes: {_listed(tool)})")
    return tool


def _listed(tool: Tool) -> str:
    return ", ".join(tool.properties) or "no arguments"


def _result(answer: Any, *, is_error: bool = False) -> types.CallToolResult:
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=is_error
    )


async def _tools(
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


async def _resources(
    _context: _Context, _page: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    definitions = types.Resource(
        uri=_DEFINITIONS,
        name="definitions",
        description="The glossary, and how every number is defined.",
        mime_type="text/markdown",
    )
    return types.ListResourcesResult(resources=[definitions])


async def _resource(
    _context: _Context, asked: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    if asked.uri != _DEFINITIONS:
        raise MCPError(types.INVALID_PARAMS, f"no resource '{asked.uri}'; there is: {_DEFINITIONS}")
    contents = types.TextResourceContents(
        uri=_DEFINITIONS, mime_type="text/markdown", text=all_definitions()
    )
    return types.ReadResourceResult(contents=[contents])
