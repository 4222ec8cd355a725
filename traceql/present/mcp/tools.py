"""The tools of an assistant: their descriptions and their arguments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from traceql.present.mcp import answers
from traceql.present.mcp.answers import DEFAULT_ROWS, MAX_ROWS, Arguments, Databases

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
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_ROWS,
        "default": DEFAULT_ROWS,
        "description": "Maximum number of rows to return; total_rows is the number of all rows.",
    },
    "offset": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "Rows to skip: next_offset of the previous answer.",
    },
}

TOOLS = (
    Tool(
        "findings",
        "Start here: what costs the most time in a run. Each finding has a sentence with its "
        "numbers, a severity, advice, and as evidence the query that shows the details, with its "
        "parameters for run_query. Also the numbers that sum up the run, a row for each rank, and "
        "the failed checks (if there are any, report them before you rely on other numbers).",
        answers.findings,
        {"database": _DATABASE},
    ),
    Tool(
        "queries",
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
    Tool(
        "run_query",
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
    Tool(
        "tables",
        "The tables for the tool sql. Without names: each name, and what one of its rows is. "
        "With names: the type, meaning and unit of every column.",
        answers.tables,
        {"names": _names("Tables to describe."), "database": _DATABASE},
    ),
    Tool(
        "sql",
        "Run one read-only statement of DuckDB's SQL, where no canned query fits. It cannot write, "
        "and cannot read other files. Aggregate in SQL instead of reading many rows, and "
        "use ORDER BY if you read them in parts.",
        answers.sql,
        {"statement": _text("Such as SELECT phase, COUNT(*) ..."), "database": _DATABASE, **_PAGE},
        ("statement",),
    ),
    Tool(
        "definitions",
        "Definitions of terms and numbers: glossary, activity of a GPU, causes of idle time, wait "
        "and transfer, stragglers, steps ... Without a section: the headings.",
        answers.definitions,
        {"section": _text("A heading, such as Communication.")},
    ),
    Tool(
        "databases",
        "The databases, each a run with its ranks, devices, steps and number of findings.",
        answers.databases,
    ),
)
