"""What ran, the findings, what was loaded, and whether the checks hold, in a few lines."""

from pathlib import Path
from shlex import quote

import click

from traceql.analysis.findings.catalog import PARTS, evidence_command, nothing_found, saving
from traceql.cli.console import print_command, print_status, print_text
from traceql.cli.output import print_query
from traceql.database.database import Database
from traceql.util.text import format_count, one_line, shortened, source_text

# The steps of the lowest rank, as a person counts the steps of a run.
_PHASES = """
    SELECT COALESCE(phase, 'other') AS phase, COUNT(*) AS steps, SUM(gpu_dur) / 1e6 AS ms
    FROM step
    WHERE rank = (SELECT MIN(rank) FROM step)
    GROUP BY phase
    ORDER BY ms DESC NULLS LAST, phase
"""
_RECORDED = """
    SELECT MAX(ns) / 1e6 AS ms FROM (SELECT SUM(dur) AS ns FROM device_state GROUP BY rank)
"""
_FACTS = (
    *("model", "architecture", "parallelism", "mode", "devices", "ranks", "versions"),
    "counters",
)
# The number of ranks is the same as in query overview.recording.
_COUNTS = """
    WITH job AS (
        SELECT
            COUNT(*) AS loaded,
            CASE
                WHEN EXISTS (FROM run) THEN MAX(trace.world_size) ELSE MAX(recorder.world_size)
            END AS stated,
            GREATEST(
                COUNT(*), MAX(trace.world_size), (SELECT MAX(group_size) FROM communicator)
            ) AS ranks
        FROM trace
        LEFT JOIN recorder USING (rank)
        HAVING COUNT(*) > 0
    )
    SELECT
        (SELECT COUNT(*) FROM slice) AS slices,
        (SELECT COUNT(*) FROM kernel) AS kernels,
        (SELECT COUNT(*) FROM step) AS steps,
        (SELECT COUNT(*) FROM trace) AS ranks,
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
_MARKS = {"severe": "✗", "notable": "!"}


def print_run(trace: Database) -> None:
    """Prints what ran, on what, for how long, and its steps by phase."""
    facts = {row["fact"]: row["value"] for row in trace.query("overview.recording")}
    if "ranks" in facts:
        facts["ranks"] = f"ranks: {facts['ranks']}"
    if about := " · ".join(facts[name] for name in _FACTS if name in facts):
        print_text(one_line(about), hanging="  ", bold=True)
    if "timeline" in facts:
        return
    recorded = trace.select(_RECORDED).rows()[0]["ms"]
    phases = [
        f"{row['steps']:,} {row['phase']}" + (f" ({row['ms']:,.1f} ms)" if row["ms"] else "")
        for row in trace.select(_PHASES)
    ]
    parts = [f"{recorded:,.1f} ms recorded" if recorded else trace.terminology("no GPU activity")]
    parts += [f"steps: {', '.join(phases)}"] if phases else []
    print_text("; ".join(parts), hanging="  ")


def print_findings(trace: Database, database: Path) -> None:
    """Prints the findings: headline, saving, the command that shows the evidence, advice."""
    findings = trace.query("overview.findings").rows()
    if not findings:
        print_text(f"no findings: {nothing_found(trace)}", hanging="  ")
    for row in findings:
        print_text(_short(row["finding"]), before=f"{_MARKS[row['severity']]} ", bold=True)
        if row["saving_ns"] is not None:
            print_text(_short(saving(row)), before="    save ")
        print_command(_short(evidence_command(row, quote(str(database)))), before="    see  ")
        print_text(_short(row["advice"]), before="    try  ")


def _short(text: str) -> str:
    return shortened(one_line(text), _MAX_LETTERS)


def print_summary(trace: Database, database: Path) -> None:
    """Prints a line of counts, and a line about the ledger."""
    (row,) = trace.select(_COUNTS).rows()
    counts = ["no trace"]
    if row["ranks"]:
        least = "at least " if row["at_least"] else ""
        activities = format_count(row["kernels"], "GPU activity", "GPU activities")
        counts = [
            f"{row['ranks']} of {least}{format_count(row['world_size'], 'rank')}",
            format_count(row["slices"], "slice"),
            trace.terminology(activities),
            format_count(row["steps"], "step"),
        ]
    if row["profiled"]:
        counts.append(format_count(row["profiled"], "profiled launch", "profiled launches"))
    print_text(one_line(f"{database}: {', '.join(counts)}"), hanging="  ")
    if row["ranks"] and not row["slices"]:
        print_text("! no events: was the profiler stopped before anything ran?", hanging="  ")
    ledger = "ledger of the whole run" if trace.excerpt_info else "ledger"
    if row["failed"]:
        verdict = f"✗ {ledger}: {row['failed']} of {row['checks']} checks FAILED"
    else:
        held = "its only check holds" if row["checks"] == 1 else f"all {row['checks']} checks hold"
        verdict = f"✓ {ledger}: {held}, nothing was lost"
    if row["other_pct"] is not None:
        verdict += f"; {row['other_pct']:.2f}% of GPU time is unclassified (other)"
    print_text(trace.terminology(verdict), hanging="  ")
    if row["failed"]:
        print_query(trace, "quality.ledger", failed=True)


def print_disjoint_recordings(trace: Database) -> None:
    """Prints a warning if ranks were recorded at other times than the lowest rank."""
    apart = trace.select(f"FROM ({source_text(_DISJOINT)}) ORDER BY rank").rows()
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


def warn_if_large_for_perfetto(trace: Database) -> None:
    slices = trace.select("SELECT COUNT(*) AS slices FROM slice").rows()[0]["slices"]
    if slices > PERFETTO_SLICES:
        print_status(f"{slices:,} slices are too many for the Perfetto UI in a browser; {_SMALLER}")


def warn_if_large_for_report(trace: Database) -> None:
    kernels = trace.select("SELECT COUNT(*) AS kernels FROM kernel").rows()[0]["kernels"]
    if kernels > REPORT_KERNELS:
        print_status(f"a report on {kernels:,} kernels takes minutes; {_SMALLER}")
