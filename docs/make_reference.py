"""Writes docs/reference from the heads of queries and tables, and the JSON schema of plans.

    python docs/make_reference.py

tests/test_docs.py fails where the pages are not what this writes.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the packages beside this folder

from capture.experiment.plan import plan_schema
from traceql.analysis.diagnosis.catalog import GROUPS, causes
from traceql.database.loading.draft import LOADED
from traceql.runs import compare, experiment
from traceql.runs.compare import diff_queries
from traceql.runs.experiment.experiment import experiment_queries
from traceql.runs.lake import manifest
from traceql.runs.lake.lake import fleet_queries
from traceql.runs.lake.tables import QUERIES as SUMMARY_QUERIES
from traceql.runs.lake.tables import RUN, RUN_TEXT, SUMMARIES, stored_tables
from traceql.sql.definition import Definition, Kind, Schema
from traceql.sql.query import Parameter, Query, catalog
from traceql.sql.registry import definitions
from traceql.util.text import (
    Column,
    CommentHead,
    comment_head,
    described_columns,
    source_text,
)

FOLDER = Path(__file__).parent / "reference"
SCHEMA = Path(__file__).parents[1] / "capture" / "experiment" / "plan.schema.json"
COMPARED = Path(compare.__file__).parent / "tables"
OF_EXPERIMENTS = Path(experiment.__file__).parent / "tables"
_NOTE = "<!-- Made by docs/make_reference.py; change the files that it reads instead. -->"


def pages() -> dict[str, str]:
    """Each page's name and text."""
    return {
        "queries.md": _queries(),
        "comparisons.md": _comparisons(),
        "experiments.md": _experiments(),
        "causes.md": _causes(),
        "lake.md": _lake(),
        "tables.md": _tables(),
        "plans.md": _plans(),
    }


def _queries() -> str:
    intro = '# Queries\n\n`traceql run NAME DB`, or `run.query("NAME")`.'
    return _page(intro, catalog())


def _causes() -> str:
    parts = [
        "# Causes\n\nThe catalogue of the [diagnosis](../diagnosis.md), in the order in which "
        "causes are given lost time: specific ones before general ones."
    ]
    for group in GROUPS:
        rows = [
            _row(f"`{one.name}`", one.summary, ", ".join(one.unless), one.record)
            for one in causes().values()
            if one.group == group
        ]
        head = ["| cause | what it is | ruled out by | what decides it |", "|---|---|---|---|"]
        parts.append("\n".join([f"## {group}\n", *head, *rows]))
    return "\n\n".join([_NOTE, *parts]) + "\n"


def _plans() -> str:
    """The keys of a plan, a table for each mapping of it."""
    described = plan_schema()["$defs"]
    parts = [
        "# Plans of experiments\n\nThe keys of the YAML file of `traceql experiment run`. Editors "
        "that know JSON schemas check it with `capture/experiment/plan.schema.json`."
    ]
    for name in ("Plan", "Grid", "Constraints", "Limits", "Record"):
        title = "plan" if name == "Plan" else f"{name.lower()}:"
        rows = [
            _row(
                f"`{key}`",
                _values(value),
                "required" if key in described[name].get("required", ()) else _default_value(value),
                value["description"],
            )
            for key, value in described[name]["properties"].items()
        ]
        table = ["| key | values | default | |", "|---|---|---|---|", *rows]
        parts += [f"## {title}\n\n{described[name]['description']}", "\n".join(table)]
    return "\n\n".join([_NOTE, *parts]) + "\n"


def _values(schema: Mapping[str, Any]) -> str:
    """What a key may be, in words."""
    if "anyOf" in schema:
        single = [one for one in schema["anyOf"] if one.get("type") not in ("null", "array")]
        words = list(dict.fromkeys(map(_values, single)))
        return " or ".join([*words, "a list"] if len(single) < _without_null(schema) else words)
    if "enum" in schema:
        return ", ".join(str(one) for one in schema["enum"])
    if "$ref" in schema:
        return "mapping"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_values(schema['items'])}"
    names = {"integer": "number", "object": "mapping", "boolean": "true, false", "string": "text"}
    return names.get(str(kind), str(kind or "any"))


def _without_null(schema: Mapping[str, Any]) -> int:
    return sum(one.get("type") != "null" for one in schema["anyOf"])


def _default_value(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default in (None, {}) else f"`{json.dumps(default)}`"


def _comparisons() -> str:
    intro = (
        "# Comparisons\n\n"
        '`comparison = traceql.diff("before.duckdb", "after.duckdb")` compares two runs, or two '
        'groups of repeats; `comparison.run("NAME")` runs one of these queries, and '
        "`comparison.sql(...)` any SQL over the tables below, and over those of the databases, as "
        "`base.kernel` and `new.kernel`."
    )
    return _page(intro, diff_queries()) + _tables_in(COMPARED, "Tables of a comparison")


def _experiments() -> str:
    intro = (
        "# Answers of experiments\n\n"
        '`results = experiment("results/tp")` (`from traceql.runs.experiment import experiment`) '
        "reads what `traceql experiment run` has written, of one experiment or several; "
        '`results.run("NAME")` runs one of these queries, and `results.sql(...)` any SQL over the '
        "tables below. Points that were profiled have further tables, such as `profile_metric` and "
        "`profile_typical_part`: those of a saved baseline, "
        "with a column `point_id`."
    )
    return _page(intro, experiment_queries()) + _tables_in(OF_EXPERIMENTS, "Tables of experiments")


def _lake() -> str:
    intro = (
        "# Lake\n\n"
        '`traceql lake run NAME --lake DIR`, or `traceql.open_lake("DIR").run("NAME")`, runs one '
        "of these queries over all runs. `traceql lake sql` and `.sql(...)` run any SELECT over "
        "the tables below, those of the databases ([tables](tables.md)), and those "
        "of a saved baseline ([experiments](experiments.md)), as `profile_metric`. Each has a "
        "column `run` before the others; the path of a run directory, column `run` of a database, "
        "is `run_directory`."
    )
    return _page(intro, fleet_queries()) + "\n# Tables of a lake\n\n" + "\n".join(_lake_tables())


def _lake_tables() -> Iterator[str]:
    yield _described_rows(manifest.NAME, manifest.SUMMARY, manifest.COLUMNS)
    for name in (*SUMMARIES, *SUMMARY_QUERIES):
        one = stored_tables()[name]
        yield _described_rows(name, one.summary, (Column(RUN, "VARCHAR", RUN_TEXT), *one.columns))


def _described_rows(name: str, summary: str, columns: Iterable[Column]) -> str:
    rows = [_row(f"`{c.name}`", c.type, c.text) for c in columns]
    head = [f"## Table {name}\n", f"{summary}\n", "| column | type | |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _tables_in(folder: Path, title: str) -> str:
    described = []
    for file in sorted(folder.glob("*.sql")):
        head = comment_head(file.name, source_text(file), ("column",))
        described.append(_described_columns(file.stem, head))
    return "\n".join([f"\n# {title}\n", *described])


def _described_columns(name: str, head: CommentHead) -> str:
    parts = [f"## Table {name}\n", f"{head.summary}\n", *([f"{head.text}\n"] if head.text else [])]
    rows = [_row(f"`{c.name}`", c.type, c.text) for c in described_columns(name, head)]
    return "\n".join([*parts, "| column | type | |", "|---|---|---|", *rows, ""])


def _page(intro: str, found: Mapping[str, Query]) -> str:
    listed = [f"- [`{name}`](#{_anchor(name)}): {q.head.summary}" for name, q in found.items()]
    described = [_described(query) for query in found.values()]
    return "\n\n".join([_NOTE, intro, "\n".join(listed), "\n".join(described)])


def _described(query: Query) -> str:
    head = query.head
    parts = [f"## {query.name}\n", f"{head.summary}\n"]
    if head.text:
        parts.append(f"{head.text}\n")
    if head.parameters:
        parts += ["| parameter | type | default | |", "|---|---|---|---|"]
        parts += [
            _row(f"`--{p.name}`", p.type.__name__, _default(p), _meaning(p))
            for p in head.parameters
        ]
        parts.append("")
    parts += ["| column | type | |", "|---|---|---|"]
    parts += [_row(f"`{c.name}`", c.type, c.text) for c in head.columns]
    return "\n".join([*parts, ""])


def _default(parameter: Parameter) -> str:
    return "" if parameter.default is None else f"`{parameter.default}`"


def _meaning(parameter: Parameter) -> str:
    if not parameter.values:
        return parameter.meaning
    return f"{parameter.meaning} One of {', '.join(parameter.values)}."


_SCHEMAS = {
    Schema.MAIN: (
        "Public tables",
        "The schema `main`: what `SHOW TABLES` lists and `traceql sql` finds by name. Those that "
        "every load makes say so; the others are made when a statement first reads them, or by "
        "`traceql load --complete`.",
    ),
    Schema.INTERNAL: (
        "Internal tables",
        "What the public tables and the canned queries are made from, as `internal.NAME`. They "
        "change from version to version.",
    ),
    Schema.REFERENCE: (
        "Reference tables",
        "Rules, thresholds and data sheets, as `reference.NAME`: the same for every recording, but "
        "for rows that you add with `--rules` and `--peaks`.",
    ),
}


def _tables() -> str:
    intro = (
        "# Tables\n\n`ts` is nanoseconds since the run's first event, `dur` nanoseconds.\n\n"
        "Each table says its scope: *rank* if it is made from one rank's rows alone, *run* if it "
        "needs all ranks."
    )
    parts = [_NOTE, intro]
    for schema, (title, text) in _SCHEMAS.items():
        tables = [o for o in definitions().values() if o.kind.is_kept and o.schema is schema]
        parts += [f"## {title}", text]
        parts += [_described_table(one) for one in sorted(tables, key=lambda one: one.name)]
    return "\n\n".join(parts) + "\n"


def _described_table(one: Definition) -> str:
    """Scratch tables that it is made from are named too: the files have them."""
    made_from = ", ".join(f"`{name}`" for name in one.needs)
    origin = f"Made from {made_from}." if one.needs else "Filled when traces are loaded."
    if not one.needs and one.kind is not Kind.SOURCE:
        origin = "The same in every database of this version."
    if one.schema is Schema.MAIN:
        origin += " By every load." if one.name in LOADED else " When it is first read."
    parts = [f"### {one.name}", "", one.summary, ""]
    parts += [one.text, ""] if one.text else []
    parts += [f"Scope: {one.scope}. {origin}", "", "| column | type | |", "|---|---|---|"]
    return "\n".join([*parts, *(_row(f"`{c.name}`", c.type, c.text) for c in one.columns)])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _anchor(name: str) -> str:
    return name.replace(".", "")


def schema_text() -> str:
    """The JSON schema of plans, which is part of the package."""
    return json.dumps(plan_schema(), indent=1) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
