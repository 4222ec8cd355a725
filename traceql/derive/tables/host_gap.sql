-- One row per rank, kind of step, gap cause (host or sync) and kind of host event: the idle time that the launching thread (gap.track_id) spent in such events.
--
-- The rows of a rank, phase, graph mode and cause add up to the gaps of that cause.
-- @scope  rank
-- @needs  event_kind, gap, host_name, host_time, slice, step, trace
-- @column rank        BIGINT   Rank.
-- @column phase       VARCHAR  Phase of the gap's step; NULL if unknown.
-- @column graph_mode  VARCHAR  How the gap's step used CUDA graphs (step.graph_mode); NULL if unknown.
-- @column cause       VARCHAR  Cause of the gaps: host or sync (see gap.cause).
-- @column name        VARCHAR  Innermost operator, annotation, Python frame or call that the launching thread was in, without what differs between calls (macro host_name); a text in brackets if it was in none.
-- @column cat         VARCHAR  Event category, as in slice; NULL if there was none.
-- @column ns          BIGINT   Time in gaps during which this was the innermost event, ns.
WITH named AS (
    SELECT
        slice.rank,
        host_time.phase,
        host_time.graph_mode,
        host_time.cause,
        host_name(slice.name) AS name,
        slice.cat,
        SUM(host_time.ns) AS ns
    FROM host_time
    INNER JOIN slice ON host_time.slice_id = slice.id
    GROUP BY ALL
),
known AS (
    SELECT rank, phase, graph_mode, cause, SUM(ns) AS ns
    FROM named
    GROUP BY ALL
),
total AS (
    SELECT gap.rank, step.phase, step.graph_mode, gap.cause, SUM(gap.dur) AS ns
    FROM gap
    LEFT JOIN step USING (step_id)
    WHERE gap.cause IN ('host', 'sync')
    GROUP BY ALL
),
-- Other profilers than PyTorch's record no stacks.
without_stacks AS (
    SELECT rank FROM trace WHERE dialect = 'pytorch'
    EXCEPT
    SELECT slice.rank
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'frame'
)
SELECT rank, phase, graph_mode, cause, name, cat, CAST(ns AS BIGINT) AS ns FROM named
UNION ALL
SELECT
    total.rank,
    total.phase,
    total.graph_mode,
    total.cause,
    CASE
        WHEN total.rank IN (FROM without_stacks)
            THEN '(no event recorded; with Python stacks, the trace would show more)'
        ELSE '(no event recorded)'
    END,
    NULL,
    CAST(total.ns - COALESCE(known.ns, 0) AS BIGINT)
FROM total
LEFT JOIN known
    ON total.rank = known.rank
    AND total.phase IS NOT DISTINCT FROM known.phase
    AND total.graph_mode IS NOT DISTINCT FROM known.graph_mode
    AND total.cause = known.cause
WHERE total.ns > COALESCE(known.ns, 0)
ORDER BY rank, phase, graph_mode, cause, ns DESC, name
