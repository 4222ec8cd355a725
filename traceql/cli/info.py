"""traceql info and demo: what ran, the findings, and whether the checks hold."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import click

from traceql.analysis.diagnosis.catalog import PARTS
from traceql.analysis.diagnosis.texts import (
    explained,
    fine,
    nothing_found,
    query_command,
    saving,
)
from traceql.cli.options import (
    PATH,
    STACK_FORMATS,
    TABLE_HELP,
    OutputFormat,
    format_options,
    output_option,
)
from traceql.cli.output import (
    print_command,
    print_query,
    print_status,
    print_table,
    print_text,
    write_rows,
)
from traceql.cli.streams import load_progress
from traceql.database.database import Database
from traceql.sql.query import bound, query_named
from traceql.util.resources import EXAMPLE_TRACE
from traceql.util.text import format_count, one_line, shortened, source_text

# The steps of the lowest rank, as a person counts the steps of a run; of several devices, the
# longest time.
_PHASES = """
    SELECT COALESCE(phase, 'other') AS phase, MAX(steps) AS steps, MAX(ns) / 1e6 AS ms
    FROM (
        SELECT device, phase, COUNT(*) AS steps, SUM(gpu_dur) AS ns
        FROM step
        WHERE rank = (SELECT MIN(rank) FROM step)
        GROUP BY device, phase
    )
    GROUP BY phase
    ORDER BY ms DESC NULLS LAST, phase
"""
_RECORDED = "SELECT MAX(ns) / 1e6 AS ms FROM recorded_span"
_ODD = "FROM ledger WHERE check_name = 'device events not understood'"
_FACTS = (
    *("model", "architecture", "parallelism", "mode", "devices", "ranks", "versions"),
    *("host processes", "counters"),
)
# The number of ranks is the same as in query overview.recording.
_COUNTS = """
    WITH job AS (
        SELECT
            COUNT(trace.rank) AS loaded,
            CASE
                WHEN EXISTS (FROM run) THEN MAX(trace.world_size) ELSE MAX(recorder.world_size)
            END AS stated,
            GREATEST(
                COUNT(trace.rank), MAX(trace.world_size), (SELECT MAX(group_size) FROM communicator)
            ) AS ranks
        FROM trace
        LEFT JOIN recorder USING (rank)
        HAVING COUNT(*) > 0
    )
    SELECT
        (SELECT COUNT(*) FROM slice) AS slices,
        (SELECT COUNT(*) FROM kernel) AS kernels,
        (SELECT COUNT(DISTINCT (rank, number)) FROM step) AS steps,
        (SELECT COUNT(rank) FROM trace) AS ranks,
        (SELECT ranks FROM job) AS world_size,
        (SELECT ranks > GREATEST(loaded, stated) FROM job) AS at_least,
        (SELECT COUNT(*) FROM profiled_launch) AS profiled,
        COUNT(ok) AS checks,
        COUNT(*) FILTER (NOT ok) AS failed,
        100.0 * SUM(value) FILTER (check_name = 'time classified other')
        / NULLIF(SUM(total) FILTER (check_name = 'time classified other'), 0) AS other_pct
    FROM ledger
"""
_DISJOINT = PARTS / "disjoint_recording.sql"
_MAX_LETTERS = 1_000  # of a line; names in traces have any length
_MARKS = {"severe": "✗", "notable": "!", "remark": "·"}


def print_run(database: Database) -> None:
    """Prints what ran, on what, for how long, and its steps by phase."""
    facts = {row["fact"]: row["value"] for row in database.query("overview.recording")}
    for name in ("ranks", "host processes"):
        if name in facts:
            facts[name] = f"{name}: {facts[name]}"
    if about := " · ".join(facts[name] for name in _FACTS if name in facts):
        print_text(one_line(about), hanging="  ", bold=True)
    if "timeline" in facts:
        return
    recorded = database.select(_RECORDED).rows()[0]["ms"]
    phases = [
        f"{row['steps']:,} {row['phase']}" + (f" ({row['ms']:,.1f} ms)" if row["ms"] else "")
        for row in database.select(_PHASES)
    ]
    nothing = "GPU activity not understood" if len(database.select(_ODD)) else "no GPU activity"
    parts = [f"{recorded:,.1f} ms recorded" if recorded else database.terminology(nothing)]
    parts += [f"steps: {', '.join(phases)}"] if phases else []
    print_text("; ".join(parts), hanging="  ")


def print_findings(database: Database) -> None:
    """Prints the findings: headline, evidence, saving, remedy, and the query that shows it."""
    findings = database.query("overview.findings").rows()
    if not findings:
        is_timeline = bool(len(database.select("FROM trace LIMIT 1")))
        print_text(f"no findings: {nothing_found(is_timeline)}", hanging="  ")
    for row in findings:
        _print_finding(row, quote(str(database.path)))
    for summary in database.query("overview.lost"):
        for text in (explained(summary), fine(summary["fine"])):
            if text:
                print_text(one_line(database.terminology(text)), hanging="  ")


def _print_finding(row: Mapping[str, Any], database: str) -> None:
    """A remark has its headline alone."""

    def short(text: str) -> str:
        return shortened(one_line(text), _MAX_LETTERS)

    is_remark = row["severity"] == "remark"
    print_text(short(row["headline"]), before=f"{_MARKS[row['severity']]} ", bold=not is_remark)
    if is_remark:
        return
    for sentence in row["evidence"]:
        print_text(short(sentence), before="    - ")
    if text := saving(row):
        print_text(text, before="    save ")
    print_text(short(row["remedy"]), before="    try  ")
    if row["unknowns"]:
        print_text(short(row["unknowns"]), before="    unknown: ")
    print_command(short(query_command(row, database)), before="    see  ")


def print_summary(database: Database) -> None:
    """Prints a line of counts, and a line about the ledger."""
    (row,) = database.select(_COUNTS).rows()
    counts = ["no trace"]
    if row["ranks"]:
        least = "at least " if row["at_least"] else ""
        activities = format_count(row["kernels"], "GPU activity", "GPU activities")
        counts = [
            f"{row['ranks']} of {least}{format_count(row['world_size'], 'rank')}",
            format_count(row["slices"], "slice"),
            database.terminology(activities),
            format_count(row["steps"], "step"),
        ]
    if row["profiled"]:
        counts.append(format_count(row["profiled"], "profiled launch", "profiled launches"))
    print_text(one_line(f"{database.path}: {', '.join(counts)}"), hanging="  ")
    if row["ranks"] and not row["slices"]:
        stopped = "was the profiler stopped before anything ran?"
        why = "the ledger says what the file has instead" if row["failed"] else stopped
        print_text(f"! no events: {why}", hanging="  ")
    ledger = "ledger of the whole run" if database.excerpt_info else "ledger"
    if row["failed"]:
        verdict = f"✗ {ledger}: {row['failed']} of {row['checks']} checks FAILED"
    else:
        held = "its only check holds" if row["checks"] == 1 else f"all {row['checks']} checks hold"
        verdict = f"✓ {ledger}: {held}, nothing was lost"
    if row["other_pct"] is not None:
        verdict += f"; {row['other_pct']:.2f}% of GPU time is unclassified (other)"
    print_text(database.terminology(verdict), hanging="  ")
    if row["failed"]:
        print_query(database, "quality.ledger", failed=True)


def print_disjoint_recordings(database: Database) -> None:
    """Prints a warning if ranks were recorded at other times than the lowest rank."""
    apart = database.select(f"FROM ({source_text(_DISJOINT)}) ORDER BY rank").rows()
    if apart:
        ranks = ", ".join(str(row["rank"]) for row in apart)
        seconds = min(row["apart_ns"] for row in apart) / 1e9
        click.echo(
            f"warning: recorded at another time than rank {apart[0]['reference_rank']}: "
            f"{'rank' if len(apart) == 1 else 'ranks'} {ranks} ({seconds:,.1f} s apart); "
            "load each run into a database of its own (-o)",
            err=True,
        )


# docs/scale.md: with more rows, the Perfetto UI or the report take minutes.
PERFETTO_SLICES = 3_000_000
REPORT_KERNELS = 2_000_000
_SMALLER = "choose a part of the run with --steps, --from and --to, or --sample"


def warn_if_large(database: Database, *, for_perfetto: bool) -> None:
    """Warns that the Perfetto UI, or else the report, will take minutes."""
    table, most = ("slice", PERFETTO_SLICES) if for_perfetto else ("kernel", REPORT_KERNELS)
    rows = database.select(f"SELECT COUNT(*) AS rows FROM {table}").rows()[0]["rows"]
    if rows > most and for_perfetto:
        print_status(f"{rows:,} slices are too many for the Perfetto UI in a browser; {_SMALLER}")
    elif rows > most:
        print_status(f"a report on {rows:,} kernels takes minutes; {_SMALLER}")


_FILES = "SELECT rank, path, format, reader, size_bytes FROM trace ORDER BY rank"
_PROFILES = """
    SELECT parse_filename(path) AS profile, page, COUNT(*) AS launches, size_bytes
    FROM profile_file
    INNER JOIN profiled_launch ON profile_file.id = profiled_launch.file_id
    GROUP BY profile_file.id, path, page, size_bytes
    ORDER BY profile_file.id
"""
_MODELS = """
    SELECT
        rank, CASE
            WHEN family IS NULL THEN 'unknown (roles by place)'
            WHEN EXISTS (FROM model_config) THEN family
            ELSE family || ' (fits best)'
        END AS "model family",
        layers,
        CASE confirmed
            WHEN 1 THEN '1 complete forward pass'
            ELSE confirmed || ' complete forward passes'
        END AS "confirmed by"
    FROM rank_model
    ORDER BY rank
"""
# Ranks without layers, by what is missing.
_WITHOUT_LAYERS = """
    WITH kernels AS (
        SELECT
            kernel.rank,
            COALESCE(BOOL_OR(list_contains(symbol.traits, 'anchors_layer')), FALSE) AS has_anchor
        FROM kernel
        LEFT JOIN symbol ON kernel.symbol = symbol.letter
        GROUP BY kernel.rank
        HAVING COUNT(kernel.layer) = 0
    ),
    modules AS (SELECT rank, COUNT(layer) AS in_layers FROM module GROUP BY rank)
    SELECT
        string_agg(kernels.rank, ' ' ORDER BY kernels.rank) AS ranks,
        CASE
            WHEN kernels.has_anchor
                THEN 'no forward pass is complete, or not every layer writes a KV cache or a state'
            ELSE 'no kernel writes a KV cache or a state'
        END
        || CASE
            WHEN modules.rank IS NULL
                THEN ', and the trace has neither stacks nor ranges that name modules'
            WHEN modules.in_layers = 0
                THEN ', and no module with modules inside has several instances in a row'
            ELSE ', and the calls of its layers launched no kernel'
        END AS reason
    FROM kernels
    LEFT JOIN modules USING (rank)
    GROUP BY reason
    ORDER BY MIN(kernels.rank)
"""
_DEMO_QUERIES: tuple[tuple[str, str, dict[str, int | str]], ...] = (
    ("What did each GPU spend its time on?", "time.breakdown", {}),
    ("Which kinds of kernels took the most GPU time?", "kernels.by_category", {}),
    ("Which kernels were these?", "kernels.top", {"limit": 8}),
    ("How long do the steps take?", "steps.phases", {"rank": 0}),
    (
        "What does a decode step need, and where does the rest of its time go?",
        "step.waterfall",
        {"phase": "decode", "by": "bar"},
    ),
    ("Do the ranks wait for each other, or transfer data?", "comm.skew", {}),
    ("Why were the GPUs idle?", "idle.by_cause", {}),
)


@click.command()
@click.argument("database", type=PATH)
@click.option(
    "--all", "all_causes", is_flag=True, help="List every cause: confirmed, ruled out or undecided."
)
@format_options(*STACK_FORMATS, help_text=TABLE_HELP, wide=False)
def info(database: Path, all_causes: bool, output_format: OutputFormat) -> None:
    """Show what ran, the findings, the contents of a database, and whether its ledger holds.

    The ledger compares the events in the trace files with the rows in the database. Formats other
    than table write only the rows of the ledger.
    """
    with Database(database) as trace:
        if output_format.name != "table":
            ledger = query_named("quality.ledger", trace.queries)
            write_rows(trace, ledger.sql, bound(ledger, {}), output_format)
            return
        trace.make(("overview.recording", "overview.findings", "overview.run"))
        print_run(trace)
        if all_causes:
            print_query(trace, "overview.causes")
            return
        click.echo()
        print_findings(trace)
        files = trace.select(_FILES)
        print_query(trace, "overview.run" if len(files) else "ncu.profile")
        if len(models := trace.select(_MODELS)):
            print_table(models)
        for row in trace.select(_WITHOUT_LAYERS):
            print_text(f"No layers were found on rank {row['ranks']}: {row['reason']}.")
        for rows in (files, trace.select(_PROFILES)):
            if len(rows):
                print_table(rows)
        click.echo()
        print_summary(trace)
        print_command(f"traceql run quality.ledger {quote(str(database))}", before="    see  ")


@click.command()
@output_option(default="demo.duckdb", help="Database file to create.")
def demo(output: Path) -> None:
    """Load the bundled trace of a four-GPU run and show where the time went.

    The trace was recorded with Qwen3-32B on four H200s with tensor parallelism and CUDA graphs. It
    has one prefill step of 4 x 1024 tokens and five decode steps. The demo needs no GPU and no
    network.
    """
    from traceql.database.loading.load import load

    print_text("A real trace: Qwen3-32B in vLLM on 4 x H200, tensor parallelism, CUDA graphs.")
    click.echo()
    with load_progress() as done:
        load([EXAMPLE_TRACE], output, done=done)
    with Database(output) as trace:
        print_findings(trace)
        click.echo()
        print_summary(trace)
        for question, query, parameters in _DEMO_QUERIES:
            options = "".join(f" --{name} {value}" for name, value in parameters.items())
            click.secho(f"\n{question}", bold=True)
            print_command(f"traceql run {query} {output}{options}", before="  ")
            print_query(trace, query, **parameters)
    click.echo("\nWith your own traces:")
    for command in (
        "traceql load YOUR_TRACES/ -o run.duckdb",
        'traceql sql run.duckdb "SELECT category, SUM(dur) FROM kernel GROUP BY 1"',
    ):
        print_command(command, before="  ")
