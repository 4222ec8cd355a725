-- One row per launch without a usable record, and place in the order of launches: when it may have run on a device.
--
-- It ran after what was launched before it on its stream, and before what was launched after it.
-- Which stream that is, and which device, is not recorded: the streams of the launches
-- just before it and just after it are taken, on each device.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, host_clock, launch, unrecorded_launch
-- @empty_unless unrecorded_launch WHERE reason = 'lost'
-- @empty_unless classified_kernel WHERE ts IS NULL
-- @column rank    BIGINT  Rank.
-- @column device  BIGINT  Number of the device on its machine.
-- @column ts      BIGINT  When it may have started, ns since the run's first event.
-- @column end_ts  BIGINT  When it must have ended, ns since the run's first event.
WITH lost AS (
    SELECT rank, ts FROM unrecorded_launch WHERE reason = 'lost'
    UNION ALL
    -- An activity without a time ran, too.
    SELECT launch.rank, launch.ts
    FROM classified_kernel AS kernel
    INNER JOIN launch ON kernel.launch_id = launch.id
    WHERE kernel.ts IS NULL
),
activity AS (
    SELECT
        kernel.rank, kernel.device, kernel.stream,
        launch.ts AS launch_ts,
        MIN(kernel.ts) AS ts,
        MAX(kernel.ts + kernel.dur) AS end_ts
    FROM classified_kernel AS kernel
    INNER JOIN launch ON kernel.launch_id = launch.id
    WHERE kernel.ts IS NOT NULL AND kernel.rank IN (SELECT rank FROM lost)
    GROUP BY ALL
),
device AS (
    SELECT rank, device, MIN(ts) AS first_ts, MAX(end_ts) AS last_ts FROM activity GROUP BY rank, device
),
placed AS (
    SELECT lost.rank, device.device, lost.ts AS launch_ts, device.first_ts, device.last_ts
    FROM lost
    INNER JOIN device USING (rank)
),
around AS (
    SELECT
        placed.rank, placed.device, placed.launch_ts,
        COALESCE(before.end_ts, placed.first_ts) AS ts,
        COALESCE(after.ts, placed.last_ts) AS end_ts,
        [before.stream, after.stream] AS streams
    FROM placed
    ASOF LEFT JOIN activity AS before
        ON placed.rank = before.rank AND placed.device = before.device AND placed.launch_ts > before.launch_ts
    ASOF LEFT JOIN activity AS after
        ON placed.rank = after.rank AND placed.device = after.device AND placed.launch_ts < after.launch_ts
),
neighbour AS (
    SELECT * EXCLUDE (streams), UNNEST(list_distinct(streams)) AS stream FROM around
),
possible AS (
    SELECT
        neighbour.rank, neighbour.device, neighbour.launch_ts,
        COALESCE(before.end_ts, neighbour.ts) AS ts,
        COALESCE(after.ts, neighbour.end_ts) AS end_ts
    FROM neighbour
    ASOF LEFT JOIN activity AS before
        ON neighbour.rank = before.rank
        AND neighbour.device = before.device
        AND neighbour.stream = before.stream
        AND neighbour.launch_ts > before.launch_ts
    ASOF LEFT JOIN activity AS after
        ON neighbour.rank = after.rank
        AND neighbour.device = after.device
        AND neighbour.stream = after.stream
        AND neighbour.launch_ts < after.launch_ts
)
-- Where the clocks agree, it did not run before it was launched.
SELECT
    possible.rank, possible.device,
    CASE WHEN host_clock.agrees THEN GREATEST(possible.ts, possible.launch_ts) ELSE possible.ts END AS ts,
    possible.end_ts
FROM possible
LEFT JOIN host_clock USING (rank)
WHERE possible.end_ts > CASE WHEN host_clock.agrees THEN GREATEST(possible.ts, possible.launch_ts) ELSE possible.ts END
