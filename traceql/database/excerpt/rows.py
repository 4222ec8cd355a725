"""The rows of each table of an excerpt, as a SELECT from the attached source database."""

from collections.abc import Mapping

from traceql.database.excerpt.overlap import Overlap
from traceql.database.excerpt.rules import RULES, Rule
from traceql.sql.definition import Definition

# What other tables are chosen by. A step is whole if it and the same iteration on other ranks, as
# far as that is in the windows at all, begins and ends in them: then what compares ranks is exact.
CHOSEN = """
    CREATE TEMP TABLE kept_kernel AS SELECT id FROM ({begun_kernels});
    CREATE TEMP TABLE touched_step AS
    SELECT
        step.step_id,
        aligned_step.iteration,
        step.from_ts >= excerpt_window.ts
        AND step.to_ts < excerpt_window.ts + excerpt_window.dur AS is_inside
    FROM (
        SELECT
            step_id,
            rank,
            LEAST(ts, gpu_ts) AS from_ts,
            GREATEST(ts + GREATEST(dur, 0), gpu_ts + gpu_dur) AS to_ts
        FROM source.step
    ) AS step
    INNER JOIN source.aligned_step USING (step_id)
    INNER JOIN excerpt_window
        ON step.rank = excerpt_window.rank
        AND step.from_ts < excerpt_window.ts + excerpt_window.dur
        AND step.to_ts >= excerpt_window.ts;
    CREATE TEMP TABLE whole_step AS
    SELECT step_id
    FROM (
        SELECT step_id, iteration, BOOL_OR(is_inside) AS is_inside
        FROM touched_step
        GROUP BY step_id, iteration
    )
    QUALIFY BOOL_AND(is_inside) OVER (PARTITION BY iteration)
"""
# A layer of a step that is not whole may be whole itself; its pass tells it from those of others.
CUT_LAYERS = """
    CREATE TEMP TABLE begun_layer AS
    SELECT DISTINCT rank, pass, layer
    FROM source.kernel
    SEMI JOIN kept_kernel USING (id)
    WHERE
        layer IS NOT NULL
        AND pass IS NOT NULL
        AND (step_id IS NULL OR step_id NOT IN (FROM whole_step));
    CREATE TEMP TABLE cut_layer AS
    SELECT DISTINCT kernel.rank, kernel.pass, kernel.layer
    FROM source.kernel AS kernel
    INNER JOIN begun_layer USING (rank, pass, layer)
    ANTI JOIN kept_kernel ON kernel.id = kept_kernel.id
"""
_WHOLE_STEP = "CASE WHEN step_id IN (FROM whole_step) THEN step_id END AS step_id"
_KERNEL = """
    SELECT * EXCLUDE (in_step, in_layer) REPLACE (
        CASE WHEN in_step THEN step_id END AS step_id,
        CASE WHEN in_layer THEN pass END AS pass,
        CASE WHEN in_layer THEN layer END AS layer
    )
    FROM (
        SELECT
            kernel.*,
            COALESCE(step_id IN (FROM whole_step), FALSE) AS in_step,
            COALESCE(step_id IN (FROM whole_step), FALSE)
            OR (pass IS NOT NULL AND NOT EXISTS (
                FROM cut_layer
                WHERE
                    cut_layer.rank = kernel.rank
                    AND cut_layer.pass = kernel.pass
                    AND cut_layer.layer = kernel.layer
            )) AS in_layer
        FROM source.kernel
        SEMI JOIN kept_kernel USING (id)
    )
"""
_LAUNCH = f"""
    SELECT * REPLACE ({_WHOLE_STEP})
    FROM source.launch
    WHERE id IN (SELECT id FROM begun_slice) OR id IN (SELECT launch_id FROM kernel)
"""
_FLOW = "FROM source.flow WHERE slice_in IN (SELECT id FROM begun_slice)"
# A call of a module is a slice, and has its ids if it is in several windows.
_MODULE = """
    SELECT module.* REPLACE (each.id AS id, around.id AS parent_id)
    FROM source.module AS module
    INNER JOIN (
        SELECT id AS slice_id, id, number FROM begun_slice
        UNION ALL
        SELECT slice_id, id, number FROM open_slice
    ) AS each ON module.id = each.slice_id
    LEFT JOIN (
        SELECT id AS slice_id, id, number FROM begun_slice
        UNION ALL
        SELECT slice_id, id, number FROM open_slice
    ) AS around ON module.parent_id = around.slice_id AND each.number = around.number
    ORDER BY each.id
"""
_IN_ANY = """
    SELECT * FROM source.{table} AS each
    WHERE EXISTS (
        FROM excerpt_window
        WHERE
            each.ts >= excerpt_window.ts
            AND each.ts < excerpt_window.ts + excerpt_window.dur{more}
    )
"""
_REQUEST = _IN_ANY.format(table="request", more="") + " AND each.profiled"
_TELEMETRY = _IN_ANY.format(
    table="telemetry", more="\n AND (each.rank IS NULL OR each.rank = excerpt_window.rank)"
)
_SAMPLE = """
    SELECT each.*
    FROM source.telemetry_sample AS each
    SEMI JOIN telemetry
        ON each.run = telemetry.run
        AND each.gpu = telemetry.gpu
        AND each.unix_ns - (SELECT MIN(base_time_ns) FROM source.trace) = telemetry.ts
"""
_OF_OPERATIONS = """
    FROM {source}
    WHERE match_id IN (
        SELECT match_id FROM source.collective SEMI JOIN edge_kernel USING (kernel_id)
    )
"""
# Kernels of the excerpt, and those of before that its devices still wait in.
EDGE_KERNELS = """
    CREATE TEMP TABLE edge_kernel AS
    SELECT id AS kernel_id FROM kept_kernel
    UNION
    SELECT kernel_id FROM device_timeline WHERE part = 'exposed_wait'
"""
_LOST_TIME = """
    WITH collective AS (FROM source.collective SEMI JOIN edge_kernel USING (kernel_id)),
    straggler AS (
    {straggler}
    )
    FROM (
    {lost_time}
    )
"""
# Of kernels that were queued at some time between the first window and the last one.
_QUEUED = """
    (
        WITH launch AS (FROM source.launch WHERE ts < {last_ts}),
        kernel AS (
            FROM source.kernel
            WHERE ts >= {first_ts} OR launch_id IN (
                SELECT id FROM source.launch WHERE ts >= {first_ts} AND ts < {last_ts}
            )
        )
        FROM (
        {queue}
        )
    )
"""


# What the rows of other tables are chosen by, in the order in which they must be made.
_FIRST = ("activity", "kernel", "launch", "device_timeline")
_LAST = ("lost_time", "slice")  # they are made in other ways


def in_order(known: Mapping[str, Definition]) -> list[Definition]:
    """The tables that `rows_of` knows the rows of, each after those that it is chosen by."""
    tables = [
        name
        for name, one in known.items()
        if name in RULES and name not in (*_FIRST, *_LAST, "telemetry_sample")
    ]
    return [known[name] for name in (*_FIRST, *tables, "telemetry_sample")]


def rows_of(one: Definition, overlap: Overlap) -> str:
    """The SELECT of a table's rows."""
    source = f"source.{one.name}"
    match RULES[one.name]:
        case Rule.WHOLE:
            return f"FROM {source}"
        case Rule.BEGUN:
            return _begun(overlap, source)
        case Rule.CLIPPED:
            return _clipped(one, overlap.clipped(source))
        case Rule.KERNEL:
            return _of_kernels(one, source)
        case Rule.OPERATION:
            return _OF_OPERATIONS.format(source=source)
        case Rule.STEP:
            return f"FROM {source} WHERE step_id IN (FROM whole_step)"
        case _:
            return _OWN[one.name]


def lost_time_rows(lost_time: Definition, straggler: Definition) -> str:
    """The SELECT of the definition, which also knows operations that began before a window."""
    return _LOST_TIME.format(lost_time=_select(lost_time), straggler=_select(straggler))


def queue_rows(queue: Definition, overlap: Overlap, *, of_excerpt: bool) -> str:
    """The rows of the view in the windows: what is queued then may start after them."""
    if of_excerpt:
        return _begun(overlap, f"source.{queue.name}")
    bounds = {"first_ts": overlap.first_ts, "last_ts": overlap.last_ts}
    return _begun(overlap, _QUEUED.format(queue=_select(queue), **bounds))


def _select(one: Definition) -> str:
    return one.source.rstrip().removesuffix(";")


def _begun(overlap: Overlap, table: str) -> str:
    return f"SELECT * EXCLUDE (number, from_ts, to_ts) FROM ({overlap.begun(table)})"


def _clipped(one: Definition, rows: str) -> str:
    has_step = any(column.name == "step_id" for column in one.columns)
    kept = f"SELECT * REPLACE ({_WHOLE_STEP}) FROM ({rows})" if has_step else rows
    return f"SELECT * FROM ({kept}) ORDER BY rank, device, ts"


def _of_kernels(one: Definition, source: str) -> str:
    column = "kernel_id" if any(c.name == "kernel_id" for c in one.columns) else "id"
    # A profiler may record activities of which the table kernel has none.
    kept = "begun_slice" if one.name == "activity" else "kept_kernel"
    return f"FROM {source} WHERE {column} IN (SELECT id FROM {kept})"


_OWN = {
    "flow": _FLOW,
    "kernel": _KERNEL,
    "ledger": "FROM source.ledger LIMIT 0",
    "launch": _LAUNCH,
    "module": _MODULE,
    "request": _REQUEST,
    "telemetry": _TELEMETRY,
    "telemetry_sample": _SAMPLE,
}
