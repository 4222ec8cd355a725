"""The SELECT of each table of an excerpt, from the attached source database."""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from traceql.sql.definition import Definition

# By the rule that selects their rows.
_TABLES = {
    # All rows: facts of the run, which do not depend on its duration.
    "whole": """
        cause clock communicator cost_formula data_sheet_peak event_kind file_count fixed_cost
        graph_node host_clock kernel_class kernel_key kernel_metric kernel_rule
        layer_kind layout link load_check log_message measured_collective measured_device
        model_config model_part model_size parsed_kernel_name peak peak_file profile_check
        profile_file profiled_launch profiled_work quantization_pattern rank_model
        rank_model_part recorder recording_span run run_file run_iteration scheduler_sample
        scheduler_step symbol trace traceql_database track transfer_curve user_peak
    """,
    # Events that begin in a window, with their whole durations.
    "begun": "counter instant memory unrecorded_launch",
    # Intervals of a device in a window, cut at its edges: they still cover the time once.
    "clipped": "device_timeline device_state gap",
    # Rows about kernels in the excerpt.
    "kernel": """
        activity collective kernel_match kernel_module launch_origin operation_plane
        profiled_kernel role_call
    """,
    # Rows of all ranks, if one rank has a kernel of the operation in the excerpt.
    "operation": "collective_arrival",
    # Rows about complete steps.
    "step": "aligned_step cost request_step step step_time step_tokens",
    # The table has a query in _OWN.
    "own": "flow kernel launch ledger lost_time module request slice telemetry telemetry_sample",
}
RULES: Mapping[str, str] = {
    table: rule for rule, tables in _TABLES.items() for table in tables.split()
}


_CELLS = 50_000  # approximate number of cells of all windows
_SHORT_NS = 10_000_000  # the few longer rows are compared with all windows of their rank
_BOUNDS = "SELECT MIN(ts), MAX(ts + dur), SUM(dur) FROM excerpt_window"
_CELL_TABLE = """
    CREATE TEMP TABLE {name} AS
    SELECT number, rank, ts AS from_ts, ts + dur AS to_ts, UNNEST({cells}) AS cell
    FROM excerpt_window
"""


@dataclass(frozen=True)
class Overlap:
    """Finds rows by the windows of the table excerpt_window."""

    cell_ns: int  # length of the cells of windows
    first_ts: int  # start of the first window
    last_ts: int  # end of the last window

    def begun(self, table: str) -> str:
        """The rows that begin in a window, with its number, from_ts and to_ts."""
        return f"""
            SELECT each.*, cell.number, cell.from_ts, cell.to_ts
            FROM {table} AS each
            INNER JOIN cell
                ON each.rank IS NOT DISTINCT FROM cell.rank
                AND each.ts // {self.cell_ns} = cell.cell
                AND each.ts >= cell.from_ts
                AND each.ts < cell.to_ts
            WHERE each.ts >= {self.first_ts} AND each.ts < {self.last_ts}
        """

    def open(self, table: str) -> str:
        """The rows that overlap the start of a window, for each window."""
        return f"""
            SELECT each.*, edge.number, edge.from_ts, edge.to_ts
            FROM {table} AS each
            INNER JOIN edge
                ON each.rank IS NOT DISTINCT FROM edge.rank
                AND each.ts // {_SHORT_NS} = edge.cell
                AND each.ts < edge.from_ts
                AND each.ts + each.dur > edge.from_ts
            WHERE each.dur <= {_SHORT_NS} AND each.ts >= {self.first_ts - _SHORT_NS}
                AND each.ts < {self.last_ts}
            UNION ALL
            SELECT each.*, edge.number, edge.ts, edge.ts + edge.dur
            FROM {table} AS each
            INNER JOIN excerpt_window AS edge
                ON each.rank IS NOT DISTINCT FROM edge.rank
                AND each.ts < edge.ts
                AND each.ts + each.dur > edge.ts
            WHERE each.dur > {_SHORT_NS}
        """

    def clipped(self, table: str) -> str:
        """The parts of rows inside windows: ts and dur are cut at the edges."""
        return f"""
            SELECT * EXCLUDE (number, from_ts, to_ts) REPLACE (
                GREATEST(ts, from_ts) AS ts,
                LEAST(ts + dur, to_ts) - GREATEST(ts, from_ts) AS dur
            )
            FROM ({self.begun(table)} UNION ALL {self.open(table)})
        """


def overlap_with_windows(con: duckdb.DuckDBPyConnection) -> Overlap:
    """Lists the windows of excerpt_window in temporary tables that the SELECTs join."""
    ((first, last, total),) = con.execute(_BOUNDS).fetchall()
    cell_ns = max(1000, int(total) // _CELLS)
    cells = f"range(ts // {cell_ns}, (ts + dur - 1) // {cell_ns} + 1)"
    con.execute(_CELL_TABLE.format(name="cell", cells=cells))
    cells = f"[ts // {_SHORT_NS} - 1, ts // {_SHORT_NS}]"
    con.execute(_CELL_TABLE.format(name="edge", cells=cells))
    return Overlap(cell_ns, first, last)


# Other tables are selected by these. A step is complete if it begins and ends in windows, and so
# does the same iteration on other ranks, if windows have it: then comparisons of ranks are exact.
SELECTED = """
    CREATE TEMP TABLE kept_kernel AS SELECT id FROM ({begun_kernels});
    CREATE TEMP TABLE touched_step AS
    SELECT
        step.step_id, aligned_step.iteration,
        step.from_ts >= excerpt_window.ts
        AND step.to_ts < excerpt_window.ts + excerpt_window.dur AS is_inside
    FROM (
        SELECT
            step_id, rank,
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
# A layer of an incomplete step may be complete; its pass distinguishes it from other calls.
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
# A call of a module is a slice with the same ids, also in several windows.
_MODULE = """
    WITH piece AS (
        SELECT id AS slice_id, id, number FROM begun_slice
        UNION ALL
        SELECT slice_id, id, number FROM open_slice
    )
    SELECT module.* REPLACE (each.id AS id, around.id AS parent_id)
    FROM source.module AS module
    INNER JOIN piece AS each ON module.id = each.slice_id
    LEFT JOIN piece AS around
        ON module.parent_id = around.slice_id AND each.number = around.number
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
# Kernels of the excerpt, and earlier ones in which its devices still wait.
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
    ),
    lost_interval AS (
    {lost_interval}
    )
    FROM (
    {lost_time}
    )
"""
# Kernels that were queued between the first window and the last one.
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


# Other tables are selected by these, which are made first, in this order.
_FIRST = ("activity", "kernel", "launch", "device_timeline")
_LAST = ("lost_time", "slice")  # they are made in other ways


def in_order(known: Mapping[str, Definition]) -> list[Definition]:
    """The tables that `rows_of` covers, each after those that it is selected by."""
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
        case "whole":
            return f"FROM {source}"
        case "begun":
            return _begun(overlap, source)
        case "clipped":
            rows = overlap.clipped(source)
            if "step_id" in {column.name for column in one.columns}:
                rows = f"SELECT * REPLACE ({_WHOLE_STEP}) FROM ({rows})"
            return f"SELECT * FROM ({rows}) ORDER BY rank, device, ts"
        case "kernel":
            columns = {column.name for column in one.columns}
            column = "kernel_id" if "kernel_id" in columns else "id"
            # A profiler may record activities that are not in the table kernel.
            kept = "begun_slice" if one.name == "activity" else "kept_kernel"
            return f"FROM {source} WHERE {column} IN (SELECT id FROM {kept})"
        case "operation":
            return _OF_OPERATIONS.format(source=source)
        case "step":
            return f"FROM {source} WHERE step_id IN (FROM whole_step)"
        case _:
            return _OWN[one.name]


def lost_time_rows(known: Mapping[str, Definition]) -> str:
    """The SELECT of table lost_time, including operations that began before a window."""
    names = ("lost_time", "lost_interval", "straggler")
    return _LOST_TIME.format(**{name: _select(known[name]) for name in names})


def queue_rows(queue: Definition, overlap: Overlap, *, of_excerpt: bool) -> str:
    """The rows of the view in the windows; queued kernels may start after them."""
    if of_excerpt:
        return _begun(overlap, f"source.{queue.name}")
    bounds = {"first_ts": overlap.first_ts, "last_ts": overlap.last_ts}
    return _begun(overlap, _QUEUED.format(queue=_select(queue), **bounds))


def _select(one: Definition) -> str:
    return one.source.rstrip().removesuffix(";")


def _begun(overlap: Overlap, table: str) -> str:
    return f"SELECT * EXCLUDE (number, from_ts, to_ts) FROM ({overlap.begun(table)})"


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
