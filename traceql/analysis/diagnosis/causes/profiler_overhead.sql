-- The profiler made the run slower, nearly all of it on the host.
-- @title   profiler overhead
-- @group   recording
-- @most    notable
-- @query   serving.latency
-- @record  Record with traceql capture run, which also runs the workload without the profiler.
-- @source  own: six recordings lost 19% to 173% to the profiler; from 100% on, half of the recorded time is the profiler's
-- @needs   run, time_scale
WITH measured AS (
    SELECT
        AVG(overhead_pct) AS pct,
        BOOL_OR(TRY_CAST(document ->> '$.profiler.stacks' AS BOOLEAN)) AS has_stacks,
        BOOL_OR(TRY_CAST(document ->> '$.profiler.shapes' AS BOOLEAN)) AS has_shapes
    FROM run
)
SELECT
    pct >= 10 AS is_confirmed,
    CASE
        WHEN pct IS NULL THEN 'what the run takes without the profiler was not measured (traceql capture run does)'
        ELSE format('the profiler made the run {:.0f}% slower', pct)
    END AS reason,
    format('The profiler made this run {:.0f}% slower', pct) AS headline,
    [
        format('A step takes {:.2f} ms with it, and {:.2f} ms without.', scale.profiled_ns / 1e6, scale.unprofiled_ns / 1e6),
        'Launches take longer under it, kernels do not; savings are stated without it.'
    ] AS evidence,
    CASE
        WHEN has_stacks AND has_shapes THEN 'traceql capture run ... without --stacks, with --no-shapes'
        WHEN has_stacks THEN 'traceql capture run ... without --stacks'
        WHEN has_shapes THEN 'traceql capture run ... --no-shapes'
        ELSE 'serving.latency has the latencies of the same work without the profiler: traceql run serving.latency DB'
    END AS remedy,
    pct < 100 AS is_remark, pct >= 100 AS is_notable
FROM measured
LEFT JOIN time_scale AS scale ON TRUE
