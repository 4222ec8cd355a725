# One row per step of a rank without annotations of steps: a forward pass, with what prepares its input and what follows it.
#
# Passes are those that the order of kernels shows (analysis/layers). There must be several, and one must be complete.
# @kind   scratch
# @scope  rank
# @needs  annotated_step, launched_activity, model_config
# @empty_unless launched_activity
# @column rank    BIGINT  Rank.
# @column id      BIGINT  First activity of the step (slice.id).
# @column ts      BIGINT  Start of the first call that launched one of its activities, ns since the run's first event; of the first activity, if the trace has no such call.
# @column dur     BIGINT  From there to the last such start in the step, ns.
# @column gpu_ts  BIGINT  Start of its first activity on the GPU, ns since the run's first event.

"""Finds forward passes before steps are known, one rank at a time."""

from collections.abc import Iterator
from itertools import pairwise

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.analysis.layers.forward_passes import Pass, passes
from traceql.analysis.layers.kernel_text import (
    Int64s,
    Stream,
    Trait,
    folded,
    letter,
    letters,
    part_codes,
)
from traceql.analysis.layers.layer_numbers import layer_count
from traceql.analysis.layers.step_borders import (
    TO_DEVICE,
    TO_HOST,
    Span,
    attention_spans,
    step_starts,
)
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import Columns, columns_of

_SCHEMA = declared_schema(__file__)
_RANKS = """
    SELECT DISTINCT rank
    FROM launched_activity
    WHERE rank NOT IN (SELECT rank FROM annotated_step)
    ORDER BY rank
"""
_ACTIVITIES = """
    SELECT
        id, device, stream, ts,
        -- An activity without a call was launched after those before it on its stream.
        COALESCE(
            launch_ts,
            LAST_VALUE(launch_ts IGNORE NULLS) OVER of_stream,
            LAST_VALUE(launch_ts IGNORE NULLS) OVER of_rank,
            MIN(launch_ts) OVER (),
            ts
        ) AS issue_ts,
        launch_ts IS NOT NULL AS has_call,
        ord(activity.letter)::UTINYINT AS code,
        COALESCE(part.letter, ord('-'))::UTINYINT AS part,
        ord(CASE copy WHEN 'HtoD' THEN $to_device WHEN 'DtoH' THEN $to_host ELSE activity.letter END)::UTINYINT
            AS issued
    FROM launched_activity AS activity
    LEFT JOIN incoming AS part USING (name)
    WHERE rank = $rank
    WINDOW
        of_stream AS (PARTITION BY device, stream ORDER BY ts, id ROWS UNBOUNDED PRECEDING),
        of_rank AS (ORDER BY ts, id ROWS UNBOUNDED PRECEDING)
    ORDER BY ts, id
"""
_ELEMENTWISE = "SELECT DISTINCT name FROM launched_activity WHERE letter = ?"
_CONFIGURED = "SELECT MAX(layers) FROM model_config"


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    configured = con.execute(_CONFIGURED).fetchall()[0][0]
    ranks = con.execute(_RANKS).fetchall()
    names = con.execute(_ELEMENTWISE, [letter("elementwise")]).fetchall()
    con.register("incoming", part_codes(name for (name,) in names))
    for (rank,) in ranks:
        words = {"rank": rank, "to_device": TO_DEVICE, "to_host": TO_HOST}
        kernels = columns_of(con.sql(_ACTIVITIES, params=words))
        order = np.lexsort((kernels["id"], kernels["ts"], kernels["issue_ts"]))
        issued = {name: one[order] for name, one in kernels.items()}
        text = _text(issued["issued"])
        spans = _spans(kernels, order, configured)
        if not spans and not set(text) & set(letters(Trait.ANCHORS_LAYER)):
            spans = attention_spans(text)
        starts = step_starts(text, spans)
        if len(starts) > 1:
            yield _steps(rank, issued, starts)
    con.unregister("incoming")


def _text(codes: npt.NDArray[np.uint8]) -> str:
    return codes.tobytes().decode("ascii")


def _spans(kernels: Columns, order: Int64s, configured: int | None) -> list[Span]:
    """The layers of each pass of the model, as places in the order of launches."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    found = []
    streams = np.stack((kernels["device"], kernels["stream"]))
    for number in np.unique(streams, axis=1).T:
        own = np.flatnonzero((streams == number[:, None]).all(axis=0))
        text = folded(_text(kernels["code"][own]), _text(kernels["part"][own]))
        found.append((place[own], passes(Stream(text, np.full(len(own), -1)))))
    counts = [layer_count(several, configured) for _, several in found]
    count = max((one for one in counts if one), default=None)
    return [
        Span(int(issued.min()), int(issued.max()) + 1)
        for places, several in found
        for one in several
        if count and _is_of_model(one, count)
        for issued in [places[_kernels(one)]]
        if len(issued)
    ]


def _is_of_model(one: Pass, count: int) -> bool:
    """Whether a pass is one of the model with `count` layers, not of a smaller one that drafts tokens."""
    is_cut_off = (one.first and not one.begins) or (one.last and not one.ends)
    return 2 * len(one) > count or is_cut_off


def _kernels(one: Pass) -> slice:
    """The kernels of a pass, as far as its layers are known."""
    start, end = one.start[one.start >= 0], one.end[one.end >= 0]
    return slice(int(start.min()), int(end.max())) if len(start) and len(end) else slice(0)


def _steps(rank: int, issued: Columns, starts: list[int]) -> pa.Table:
    bounds = list(pairwise([*starts, len(issued["id"])]))
    ts = issued["issue_ts"]
    # Without a call of its own, the first activity has the time of one of the step before.
    first = [begin + int(np.argmax(issued["has_call"][begin:end])) for begin, end in bounds]
    return pa.table(
        [
            [rank] * len(starts),
            issued["id"][starts],
            ts[first],
            [int(ts[end - 1] - ts[begin]) for begin, (_, end) in zip(first, bounds, strict=True)],
            [int(issued["ts"][begin:end].min()) for begin, end in bounds],
        ],
        schema=_SCHEMA,
    )
