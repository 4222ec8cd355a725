"""The tools of an assistant: what it reads of them, and what they take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from traceql.present.mcp import answers
from traceql.present.mcp.answers import Arguments
from traceql.present.mcp.databases import Databases
from traceql.present.mcp.rows import MOST_ROWS, USUAL_ROWS

INSTRUCTIONS = (
    "traceql holds profiler traces of LLM inference on GPUs (vLLM) in databases of exact events: "
    "where did the time of a run go, and why? To find the cause of a slow run, call findings, and "
    "follow the evidence of each finding with run_query. Narrow it down with other queries, by "
    "rank, phase and step. Ask with sql what no query answers; tables describes the columns. "
    "Names of columns carry units: _ns is nanoseconds, _pct percent; ts and dur are nanoseconds. "
    "null means unknown, never zero. Before you explain a number, read what it means: queries "
    "describes the columns of a query, definitions the terms. Everything is read-only."
)

_Schema = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        text: what it is for; the assistant chooses by it.
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


_DATABASE: _Schema = {
    "type": "string",
    "description": "Which database, as the tool databases lists it; needed if there are several.",
}
_NAMES: _Schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_PAGE: dict[str, _Schema] = {
    "max_rows": {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_ROWS,
        "default": USUAL_ROWS,
        "description": "Most rows to return; total_rows says how many there are.",
    },
    "offset": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "How many rows to skip: next_offset of the answer before.",
    },
}

TOOLS = (
    Tool(
        "findings",
        "Start here: what costs the most time in a run. Each finding has a sentence with its "
        "numbers, a severity, advice, and as evidence the query that shows the details, with its "
        "parameters for run_query. Also the numbers that sum up the run, a row for each rank, and "
        "the checks that failed (if any did, say so before you rely on other numbers).",
        answers.findings,
        {"database": _DATABASE},
    ),
    Tool(
        "queries",
        "The canned queries: time breakdown, idle gaps and their host cause, communication wait "
        "and transfer, stragglers, layers, kernels, steps, requests, telemetry ... Without names: "
        "each name with what one row is. With names: definition, parameters with their defaults, "
        "columns with their units.",
        answers.queries,
        {
            "names": _NAMES | {"description": "Queries to describe."},
            "sql": {
                "type": "boolean",
                "default": False,
                "description": "Also the SQL, to adapt it for the tool sql.",
            },
        },
    ),
    Tool(
        "run_query",
        "Run a canned query. Prefer it to sql of your own: its numbers are defined and tested.",
        answers.run_query,
        {
            "name": {"type": "string", "description": "Such as time.breakdown."},
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
    Tool(
        "tables",
        "The tables for the tool sql. Without names: each name with what one row is. "
        "With names: the type, meaning and unit of every column.",
        answers.tables,
        {"names": _NAMES | {"description": "Tables to describe."}, "database": _DATABASE},
    ),
    Tool(
        "sql",
        "Run one read-only statement of DuckDB's SQL, for what no canned query answers. It can "
        "neither write nor read other files. Aggregate in SQL instead of reading many rows, and "
        "use ORDER BY if you read them in parts.",
        answers.sql,
        {
            "statement": {"type": "string", "description": "Such as SELECT phase, COUNT(*) ..."},
            "database": _DATABASE,
            **_PAGE,
        },
        ("statement",),
    ),
    Tool(
        "definitions",
        "What the terms and numbers mean: glossary, activity of a GPU, causes of idle time, wait "
        "and transfer, stragglers, steps ... Without a section: the headings.",
        answers.definitions,
        {"section": {"type": "string", "description": "A heading, such as Communication."}},
    ),
    Tool(
        "databases",
        "The databases that can be asked, each a run with its ranks, devices, steps and number of "
        "findings.",
        answers.databases,
    ),
)
