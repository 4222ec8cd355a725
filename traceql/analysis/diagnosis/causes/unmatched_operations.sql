-- Some operations were not found on all their ranks, so that their waiting and transfers cannot be distinguished.
-- @title   unmatched operations
-- @group   recording
-- @most    notable
-- @query   comm.summary
-- @record  Load all ranks.
-- @source  own: the wait time of such operations is unknown
-- @needs   collective, time_scale, time_unit, trace
WITH counted AS (
    SELECT COUNT(*) AS operations, COUNT(*) FILTER (wait_ns IS NULL) AS unmatched
    FROM collective
    WHERE group_size IS DISTINCT FROM 1
),
spent AS (
    SELECT
        COALESCE(SUM(ns), 0) AS ns,
        arg_max(rank, longest_ns) AS rank, arg_max(longest_ts, longest_ns) AS ts, MAX(longest_ns) AS dur
    FROM time_unit
    WHERE part = 'unmatched'
),
loaded AS (
    SELECT
        MAX(world_size) AS world_size,
        COUNT(rank) < GREATEST(MAX(world_size), COALESCE((SELECT MAX(group_size) FROM collective), 0)) AS is_partial
    FROM trace
)
SELECT
    CASE
        WHEN loaded.world_size = 1 OR counted.operations = 0 OR loaded.is_partial THEN FALSE
        ELSE counted.unmatched > 0.01 * counted.operations
    END AS is_confirmed,
    CASE
        WHEN loaded.world_size = 1 THEN 'the run has one rank'
        WHEN counted.operations = 0 THEN 'no operation between ranks was recorded'
        WHEN loaded.is_partial THEN 'their ranks are missing, which missing_ranks reports'
        ELSE format('{:,} of {:,} operations were found on all their ranks', counted.operations - counted.unmatched, counted.operations)
    END AS reason,
    format('{:,} of {:,} operations were not found on all their ranks', counted.unmatched, counted.operations) AS headline,
    [
        format(
            'Whether they transfer data or wait for a late rank is unknown: {:.2f} ms a step, {:.0f}% of it.',
            spent.ns / 1e6 / (scale.devices * scale.steps), 100 * spent.ns / (scale.devices * scale.steps * scale.profiled_ns)
        )
    ] AS evidence,
    'Record all ranks at the same time, and load them together: traceql load DIRECTORY' AS remedy,
    spent.ns < 0.1 * scale.devices * scale.steps * scale.profiled_ns AS is_remark,
    spent.ns >= 0.1 * scale.devices * scale.steps * scale.profiled_ns AS is_notable,
    spent.rank, spent.ts, spent.dur
FROM counted
CROSS JOIN spent
CROSS JOIN loaded
LEFT JOIN time_scale AS scale ON TRUE
