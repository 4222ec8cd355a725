-- Not all ranks of the run were loaded, so what the loaded ones wait for is unknown.
-- @title   missing ranks
-- @group   recording
-- @most    notable
-- @query   overview.recording
-- @record  Load a trace that names its rank.
-- @source  own: an operation of which one rank is missing has no known wait time
-- @needs   collective, time_scale, time_unit, trace
WITH loaded AS (
    SELECT
        COUNT(trace.rank) AS ranks,
        GREATEST(MAX(trace.world_size), COALESCE((SELECT MAX(group_size) FROM collective), 0)) AS world_size,
        list_sort(list(trace.rank) FILTER (trace.rank IS NOT NULL)) AS listed
    FROM trace
),
spent AS (
    SELECT COALESCE(SUM(ns), 0) AS ns FROM time_unit WHERE part = 'unmatched'
),
judged AS (
    SELECT
        loaded.*,
        list_filter(range(loaded.world_size), lambda one: NOT list_contains(loaded.listed, one)) AS missing,
        spent.ns / (scale.devices * scale.steps) AS step_ns,
        spent.ns / (scale.devices * scale.steps * scale.profiled_ns) AS share
    FROM loaded
    CROSS JOIN spent
    LEFT JOIN time_scale AS scale ON TRUE
)
SELECT
    CASE WHEN ranks > 0 THEN ranks < world_size END AS is_confirmed,
    CASE
        WHEN ranks = 0 THEN 'no rank was loaded'
        WHEN world_size = 1 THEN 'the run has one rank'
        ELSE format('all {} ranks were loaded', ranks)
    END AS reason,
    format('{} of {} ranks were loaded', ranks, world_size) AS headline,
    [
        format(
            'Missing: rank {}{}.', array_to_string(missing[:8], ', '), CASE WHEN len(missing) > 8 THEN format(' and {} others', len(missing) - 8) ELSE '' END
        ),
        CASE WHEN step_ns > 0 THEN format(
            'Operations of missing ranks take {:.2f} ms a step; how much of it is waiting is unknown.', step_ns / 1e6
        ) END
    ] AS evidence,
    'Load the traces of all ranks together: traceql load DIRECTORY' AS remedy,
    COALESCE(share, 0) < 0.1 AS is_remark,
    COALESCE(share, 0) >= 0.1 AS is_notable
FROM judged
