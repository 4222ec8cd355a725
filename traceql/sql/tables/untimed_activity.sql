-- One row per GPU activity that the profiler could not time: its time cannot be.
--
-- Its time is outside of what recording_span allows. Or it ended a second and more before its launch, and before all
-- launches; if that goes for half of the activities with a launch, the clocks disagree instead (host_clock).
-- @kind   scratch
-- @scope  rank
-- @needs  activity, event_kind, is_possible_time, recording_span, slice
-- @column id  BIGINT  Activity (slice.id).
WITH call AS (
    SELECT slice.rank, slice.correlation, slice.ts
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'launch'
),
begins_early AS (
    SELECT span.rank
    FROM recording_span AS span
    INNER JOIN (SELECT rank, MIN(ts) AS ts FROM call GROUP BY rank) AS first_call USING (rank)
    WHERE span.first_ts < first_call.ts - 1000000000
),
launched AS MATERIALIZED (
    SELECT slice.id, slice.rank, slice.ts + slice.dur < call.ts - 1000000000 AS is_early
    FROM (FROM slice WHERE rank IN (FROM begins_early)) AS slice
    SEMI JOIN activity USING (id)
    INNER JOIN (
        SELECT rank, correlation, MIN(ts) AS ts
        FROM call
        WHERE correlation <> 0 AND rank IN (FROM begins_early)
        GROUP BY rank, correlation
    ) AS call USING (rank, correlation)
)
SELECT slice.id
FROM slice
INNER JOIN (
    FROM recording_span
    WHERE earliest_ts IS NOT NULL OR latest_ts IS NOT NULL OR first_ts <= zero_ts  -- else all times are possible
) AS span ON slice.rank = span.rank
SEMI JOIN activity ON slice.id = activity.id
WHERE NOT is_possible_time(slice.ts, slice.dur, span.earliest_ts, span.latest_ts, span.zero_ts)
UNION
SELECT id
FROM launched
WHERE is_early AND rank IN (SELECT rank FROM launched GROUP BY rank HAVING COUNT(*) FILTER (is_early) * 2 < COUNT(*))
