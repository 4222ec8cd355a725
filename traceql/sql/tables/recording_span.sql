-- One row per rank with events: when it was recorded, and which times of GPU activities are possible.
--
-- Profilers write 0, or times years away, for activities that they could not time. A time is impossible
-- if it is more than 30 days from the median of the events of the host (of all events, if the host has none), or
-- more than 10 minutes before the first event of the host and before three quarters of the activities, or
-- after them; or 0 with a duration of 0, if all else begins more than a second later. No recording lasts that
-- long, and no kernel runs for minutes after or before everything that its host did.
-- @scope  rank
-- @needs  activity, slice, trace
-- @column rank         BIGINT  Rank.
-- @column first_ts     BIGINT  Start of the first event with a possible time, ns since the run's first event.
-- @column last_ts      BIGINT  Last end of such an event, ns since the run's first event.
-- @column earliest_ts  BIGINT  Earliest possible start of an activity, ns since the run's first event; NULL if all are possible.
-- @column latest_ts    BIGINT  Latest possible end of an activity, ns since the run's first event; NULL if all are possible.
-- @column zero_ts      BIGINT  Where activities without a time are (time 0 of the file's clock), ns since the run's first event; NULL if there may be others.
WITH extent AS (
    SELECT
        slice.rank,
        ANY_VALUE(trace.file_offset_ns) AS zero_ts,
        MIN(slice.ts) AS first_ts,
        MAX(slice.ts + slice.dur) AS last_ts,
        MIN(slice.ts) FILTER (slice.ts <> trace.file_offset_ns OR slice.dur > 0) AS timed_ts
    FROM slice
    INNER JOIN trace ON slice.rank = trace.rank
    GROUP BY slice.rank
),
-- Where all events are within 10 minutes, nothing is out of place.
event AS (
    SELECT slice.rank, slice.ts, slice.ts + slice.dur AS end_ts, activity.id IS NOT NULL AS on_gpu
    FROM extent
    INNER JOIN slice ON extent.rank = slice.rank
    LEFT JOIN activity ON slice.id = activity.id
    WHERE
        extent.last_ts - extent.first_ts > 600000000000
        AND slice.dur >= 0
        AND (slice.ts <> extent.zero_ts OR slice.dur > 0)
),
middle AS (
    SELECT rank, COALESCE(quantile_disc(ts, 0.5) FILTER (NOT on_gpu), quantile_disc(ts, 0.5)) AS ts
    FROM event
    GROUP BY rank
),
near AS (
    SELECT
        rank,
        MIN(event.ts) AS first_ts,
        MAX(event.end_ts) AS last_ts,
        LEAST(MIN(event.ts) FILTER (NOT event.on_gpu), quantile_disc(event.ts, 0.25) FILTER (event.on_gpu)) AS usual_ts,
        GREATEST(
            MAX(event.end_ts) FILTER (NOT event.on_gpu), quantile_disc(event.end_ts, 0.75) FILTER (event.on_gpu)
        ) AS usual_end_ts,
        BOOL_AND(event.on_gpu) AS is_gpu_only,
        ANY_VALUE(middle.ts) AS middle_ts
    FROM event
    INNER JOIN middle USING (rank)
    WHERE abs(event.ts - middle.ts) <= 2592000000000000 AND abs(event.end_ts - middle.ts) <= 2592000000000000
    GROUP BY rank
),
bounded AS (
    SELECT
        rank,
        CASE WHEN is_gpu_only THEN middle_ts - 2592000000000000 ELSE usual_ts - 600000000000 END AS earliest_ts,
        CASE WHEN is_gpu_only THEN middle_ts + 2592000000000000 ELSE usual_end_ts + 600000000000 END AS latest_ts
    FROM near
)
SELECT
    extent.rank,
    COALESCE(near.first_ts, extent.first_ts) AS first_ts,
    COALESCE(near.last_ts, extent.last_ts) AS last_ts,
    bounded.earliest_ts, bounded.latest_ts,
    CASE WHEN extent.timed_ts > extent.zero_ts + 1000000000 THEN extent.zero_ts END AS zero_ts
FROM extent
LEFT JOIN near USING (rank)
LEFT JOIN bounded USING (rank)
