"""Short summaries of a database: what ran, what was loaded, and whether its checks hold."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from traceql.analysis.findings.catalog import PARTS
from traceql.cli.console import print_text
from traceql.cli.output import print_answer
from traceql.database.database import Database
from traceql.database.terminology import Terminology
from traceql.util.comment_head import source_text
from traceql.util.printable import one_line

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
_TIME_APART = PARTS / "disjoint_recording.sql"
_FACTS = (
    "model",
    "architecture",
    "parallelism",
    "mode",
    "devices",
    "ranks",
    "versions",
    "counters",
)


def write_run(trace: Database) -> None:
    """Prints what ran, on what, for how long, and its steps by phase."""
    facts = {row["fact"]: row["value"] for row in trace.query("overview.recording")}
    if "ranks" in facts:
        facts["ranks"] = f"ranks: {facts['ranks']}"
    if about := " · ".join(facts[name] for name in _FACTS if name in facts):
        print_text(one_line(about), hanging="  ", bold=True)
    ((recorded,),) = (row.values() for row in trace.select(_RECORDED))
    phases = [
        f"{row['steps']:,} {row['phase']}" + (f" ({row['ms']:,.1f} ms)" if row["ms"] else "")
        for row in trace.select(_PHASES)
    ]
    if "timeline" in facts:
        return
    said = trace.terminology
    parts = [f"{recorded:,.1f} ms recorded" if recorded else said("no GPU activity")]
    parts += [f"steps: {', '.join(phases)}"] if phases else []
    print_text("; ".join(parts), hanging="  ")


def write_summary(trace: Database, database: Path) -> None:
    """Prints a line of counts and a line with the verdict of the ledger."""
    (row,) = trace.select(_COUNTS).rows()
    said = trace.terminology
    counts = [*_of_traces(row, said)] if row["ranks"] else ["no trace"]
    if row["profiled"]:
        counts.append(_number(row["profiled"], "profiled launch", "profiled launches"))
    print_text(one_line(f"{database}: {', '.join(counts)}"), hanging="  ")
    if row["ranks"] and not row["slices"]:
        print_text("! no events: was the profiler stopped before anything ran?", hanging="  ")
    ledger = "ledger of the whole run" if trace.excerpt_info else "ledger"
    print_text(said(_verdict(ledger, row["checks"], row["failed"], row["other_pct"])), hanging="  ")
    if row["failed"]:
        print_answer(trace, "quality.ledger", failed=True)


def write_warnings(trace: Database) -> None:
    """Prints a line to stderr if ranks were recorded at other times than the lowest rank."""
    apart = trace.select(f"FROM ({source_text(_TIME_APART)}) ORDER BY rank").rows()
    if apart:
        ranks = ", ".join(str(row["rank"]) for row in apart)
        seconds = min(row["apart_ns"] for row in apart) / 1e9
        click.echo(
            f"warning: recorded at another time than rank {apart[0]['reference_rank']}: "
            f"{'rank' if len(apart) == 1 else 'ranks'} {ranks} ({seconds:,.1f} s apart); "
            "load each run into a database of its own (-o)",
            err=True,
        )


def _of_traces(row: Mapping[str, Any], said: Terminology) -> Iterator[str]:
    least = "at least " if row["at_least"] else ""
    yield f"{row['ranks']} of {least}{_number(row['world_size'], 'rank', 'ranks')}"
    yield _number(row["slices"], "slice", "slices")
    yield said(_number(row["kernels"], "GPU activity", "GPU activities"))
    yield _number(row["steps"], "step", "steps")


def _number(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


def _verdict(ledger: str, checks: int, failed: int, other_pct: float | None) -> str:
    other = "" if other_pct is None else f"; {other_pct:.2f}% of GPU time is unclassified (other)"
    if failed:
        return f"✗ {ledger}: {failed} of {checks} checks FAILED{other}"
    held = "its only check holds" if checks == 1 else f"all {checks} checks hold"
    return f"✓ {ledger}: {held}, nothing was lost{other}"
