"""What the ledger has to say about an export of Nsight Systems."""

from collections.abc import Iterator
from typing import NamedTuple

from traceql.readers.dialects.nsys.vocabulary import Category
from traceql.readers.formats.nsys.counted import counted
from traceql.readers.formats.nsys.event_tables import GPU_TABLES, RUNTIME
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.job import time_changes
from traceql.readers.formats.nsys.not_loaded import not_loaded
from traceql.readers.formats.nsys.processes import (
    OF_PROCESS,
    OF_THREAD,
    PID_BITS,
    WORK_TABLES,
    RankPart,
    threads_and_kinds,
)
from traceql.readers.formats.nsys.recording import RankRecording
from traceql.readers.formats.nsys.sources import IS_WHOLE_REPLAY
from traceql.readers.formats.nsys.terms import column
from traceql.readers.remarks import Remark, left_out
from traceql.readers.shown import shown

_REPLAYS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_DIAGNOSTICS = "DIAGNOSTIC_EVENT"
_SEVERITY = {2: "warnings", 3: "errors"}
_MOST_MESSAGES = 10


class GraphLaunches(NamedTuple):
    """How many calls launch a CUDA graph, and how many of these nothing on the GPU belongs to."""

    calls: int
    without_work: int


def remarks(
    rank: RankRecording,
    launched: GraphLaunches,
    *,
    is_first: bool,
) -> Iterator[Remark]:
    """Statements about one rank; those about the whole file are with the first rank.

    Args:
        launched: the calls of the rank that launch a CUDA graph.
    """
    export, part = rank.export, rank.part
    yield from _backward(rank)
    yield from _odd_sizes(rank)
    yield from _unknown_process(export, part)
    yield from _replays(export, launched, part)
    if rank.shares_process:
        yield from _launches_elsewhere(export, part)
    if not is_first:
        return
    yield from _calls(export)
    yield from not_loaded(export)
    yield from rank.metrics.remarks()
    yield from _diagnostics(export)
    if changed := time_changes(export):
        listed = ", ".join(f"{name}={value}" for name, value in changed.items())
        yield Remark(
            "time options of the export",
            len(changed),
            len(changed),
            None,
            f"options that changed the times, so that they are not taken for Unix time: {listed}",
        )


def _backward(rank: RankRecording) -> Iterator[Remark]:
    backward = sum(rows.left_out for _, rows in rank.events)
    yield from left_out(
        "events that end before they begin",
        backward,
        backward + sum(rows.kept for _, rows in rank.events),
        "events whose end is before their start, or that ran on the GPU and have no end (export "
        "the report again)",
    )


def _odd_sizes(rank: RankRecording) -> Iterator[Remark]:
    kernels = [rows for source, rows in rank.events if source.category == Category.KERNEL]
    if odd := sum(rows.odd for rows in kernels):
        yield Remark(
            "kernels with an impossible grid or block",
            odd,
            sum(rows.kept for rows in kernels),
            False,
            f"kernels of which a size is not between 1 and {2**31 - 1:,}, so that grid or block is "
            "NULL; all kernels: export the report again",
        )


def _unknown_process(export: Export, part: RankPart) -> Iterator[Remark]:
    """Whether the rank is what no process is told of."""
    if part.process != 0:
        return
    tables = [table for table in WORK_TABLES if export.has(table, "globalPid", "deviceId")]
    each = [counted(export, table, OF_PROCESS, column("deviceId")) for table in tables]
    unknown = sum(rows[0, part.device] for rows in each)
    total = sum(rows.total() for rows in each)
    yield Remark(
        "activities of an unknown process",
        unknown,
        total,
        False,
        "GPU activities of which the export does not tell the process, so that they are a rank of "
        "their own; all in the export: export the report again",
    )


def _launches_elsewhere(export: Export, part: RankPart) -> Iterator[Remark]:
    """Activities that were launched by a thread which is with another GPU of the process."""
    kernels = GPU_TABLES[0]
    has_kernels = export.has(kernels, "globalPid", "deviceId", "correlationId")
    if part.process is None or not has_kernels:
        return
    if not export.has(RUNTIME, "globalTid", "correlationId"):
        return
    threads = ", ".join(map(str, part.threads))
    elsewhere = f"{OF_THREAD.sql} NOT IN ({threads})" if threads else "TRUE"
    of_part = f"SELECT correlationId FROM {kernels} WHERE ({OF_PROCESS.sql}, deviceId) IN (VALUES "
    of_part += ", ".join(f"({process}, {device})" for process, device in part.gpus) + ")"
    found = export.value(
        f"SELECT COUNT(DISTINCT correlationId) FROM {RUNTIME} WHERE globalTid >> {PID_BITS} = ? "
        f"AND {elsewhere} AND correlationId IN ({of_part})",
        [part.process >> PID_BITS],
    )
    if found:
        yield Remark(
            "launch calls with another rank",
            0,
            found,
            None,
            "launch calls that are tied to kernels; calls of a thread that launched more on "
            "another GPU of the process, whose rank has them: step and cause of these kernels are "
            "unknown",
        )


def _replays(export: Export, launched: GraphLaunches, part: RankPart) -> Iterator[Remark]:
    """Replays of CUDA graphs whose kernels are not in the file."""
    if launched.without_work:
        yield Remark(
            "graph launches without work",
            launched.without_work,
            launched.calls,
            False,
            "launches of CUDA graphs of which the file has neither kernels nor an interval, so "
            "that their time counts as idle; all launches of graphs. Record with nsys profile "
            "--cuda-graph-trace=node",
        )
    if not export.has(_REPLAYS, "start", "end", "globalPid", "deviceId"):
        return
    pairs = ", ".join(f"({process}, {device})" for process, device in part.gpus) or "(0, 0)"
    rows = export.rows(
        f"""
        SELECT COUNT(*), COALESCE(SUM(NOT ({IS_WHOLE_REPLAY.sql})), 0)
        FROM {_REPLAYS}
        WHERE ({OF_PROCESS.sql}, deviceId) IN (VALUES {pairs})
        """
    )
    total, incomplete = rows[0]
    yield Remark(
        "graph replays without kernels",
        total - incomplete,
        max(total, launched.calls),
        None,
        "replays of CUDA graphs recorded as one interval each; all launches of graphs. What ran "
        "inside is not in the file: record with nsys profile --cuda-graph-trace=node to see it",
    )
    if incomplete:
        yield Remark(
            "graph replays without times",
            incomplete,
            total,
            None,
            "replays of CUDA graphs that began or ended outside the recording; all replays",
        )


def _calls(export: Export) -> Iterator[Remark]:
    """Second rows of a call, for its backtrace, which are no calls."""
    if not export.has(RUNTIME, "globalTid", "eventClass"):
        return
    calls = threads_and_kinds(export, RUNTIME)
    total = calls.total()
    if others := sum(rows for (_, kind), rows in calls.items() if kind not in (0, 1)):
        yield Remark(
            "rows that are no calls",
            others,
            total,
            None,
            "rows of the table of API calls that repeat a call for its backtrace; all rows",
        )


def _diagnostics(export: Export) -> Iterator[Remark]:
    """What the profiler said while it recorded."""
    if not export.has(_DIAGNOSTICS, "severity", "text"):
        return
    for severity, what in _SEVERITY.items():
        rows = export.rows(
            f"SELECT text, COUNT(*) FROM {_DIAGNOSTICS} WHERE severity = ? GROUP BY text "
            "ORDER BY 2 DESC, 1",
            [severity],
        )
        if rows:
            total = sum(count for _, count in rows)
            said = list(dict.fromkeys(shown(text) for text, _ in rows))
            listed = "; ".join(said[:_MOST_MESSAGES])
            if len(said) > _MOST_MESSAGES:
                listed += f"; and {len(said) - _MOST_MESSAGES} other messages"
            yield Remark(
                f"{what} of the profiler", total, total, None, f"while it recorded: {listed}"
            )
