"""Recordings of the capture of CUDA or HIP graphs, which are not of a run.

vLLM (`capture_torch_profiler`) and SGLang (`--enable-profile-cuda-graph`) record the capture of
each graph and write the files into a folder `capture_traces`. What is launched during a capture
does not run: such a file has launch calls, operators and stacks, but no kernels of a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from traceql.database.loading.discovery import CAPTURES
from traceql.database.loading.reading import FileRead
from traceql.errors import TraceqlError

_BEGIN = "StreamBeginCapture"
# Launch calls on a thread between the begin and the end of a capture.
_CALLS = """
    WITH border AS (
        SELECT index, tid, ts, name LIKE '%BeginCapture%' AS begins
        FROM events
        WHERE regexp_matches(name, 'Stream(Begin|End)Capture')
    )
    SELECT event.index, border.index AS capture
    FROM events AS event
    ASOF INNER JOIN border ON event.tid = border.tid AND event.ts >= border.ts
    WHERE
        border.begins
        AND regexp_matches(event.name, 'Launch(Cooperative)?Kernel|(Memcpy|Memset).*Async')
"""
# An annotation of vLLM (vllm/profiler/graph_capture.py) names the number of tokens and the mode.
_SIGNS = """
    SELECT
        COALESCE(BOOL_OR(name LIKE '%GraphLaunch%'), FALSE) AS has_replays,
        COALESCE(BOOL_OR(regexp_matches(name, '^capture_\\d+_')), FALSE) AS is_named
    FROM events
"""
_FEW = 1 / 2  # of what was captured ran outside of captures, such as preparations


@dataclass(frozen=True)
class GraphCapture:
    """A recording of graph captures.

    Attributes:
        calls: the launch calls in captures, as index of their slice and of the call that begins
            their capture.
        activities: the number of GPU activities, which ran outside of captures.
    """

    file: FileRead
    calls: pa.Table
    activities: int

    def __str__(self) -> str:
        return (
            f"{self.file.path} records the capture of CUDA graphs ({len(self.calls):,} launch "
            f"calls in captures, {self.activities:,} GPU activities), not a run"
        )


def without_captures(files: Sequence[FileRead]) -> tuple[list[FileRead], list[GraphCapture]]:
    """The recordings of runs, and those of graph captures."""
    found = {number: _capture(file) for number, file in enumerate(files) if file.folder}
    runs = [file for number, file in enumerate(files) if not found.get(number)]
    return runs, [capture for capture in found.values() if capture]


def have_graph_nodes(files: Sequence[FileRead]) -> bool:
    """Whether activities have the numbers of the graph nodes that they replay."""
    columns = (
        part["graph_node_id"] for file in files if file.folder for _, part in file.parts("activity")
    )
    return any(column.null_count < len(column) for column in columns)


def require_a_run(
    runs: Sequence[FileRead], captures: Sequence[GraphCapture], *, has_database: bool
) -> None:
    """Raises TraceqlError if there are recordings of captures, but none of a run."""
    if captures and not runs and not has_database:
        raise TraceqlError(f"{captures[0]}; load the traces of the run that replayed the graphs")


def _capture(file: FileRead) -> GraphCapture | None:
    """What a file is if it is a recording of captures."""
    parts = [part for _, part in file.parts("slice")]
    if not any(_has_captures(part) for part in parts):
        return None
    events = pa.concat_tables(part.select(["index", "name", "ts", "tid"]) for part in parts)
    with duckdb.connect() as con:
        con.register("events", events)
        calls = con.sql(_CALLS).to_arrow_table()
        has_replays, is_named = con.execute(_SIGNS).fetchall()[0]
    activities = file.rows("activity")
    is_few = activities < len(calls) * _FEW
    is_capture = is_few or is_named or file.path.parent.name == CAPTURES
    if not len(calls) or has_replays or not is_capture:
        return None
    return GraphCapture(file, calls, activities)


def _has_captures(part: pa.Table) -> bool:
    """Whether there may be some; this searches the bytes of all names at once, which is fast."""
    texts = (one.dictionary.buffers()[2] for one in part["name"].chunks)
    return any(text and _BEGIN.encode() in text.to_pybytes() for text in texts)
