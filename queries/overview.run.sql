-- One row per rank: what was recorded, and how busy its GPU was.
--
-- Use it as the first look at a run and to compare its ranks. Busy time is the union of all GPU
-- activity across streams; communication time is the union of all collectives.
-- @column rank                BIGINT   Rank.
-- @column device_name         VARCHAR  Model of the GPU.
-- @column window_ns           BIGINT   GPU span: from the first start to the last end of any GPU activity, ns.
-- @column busy_ns             BIGINT   Time in which any GPU activity ran, ns.
-- @column busy_pct            DOUBLE   busy_ns in percent of the window.
-- @column comm_ns             BIGINT   Time in which a collective ran, ns.
-- @column comm_pct            DOUBLE   comm_ns in percent of the window.
-- @column idle_ns             BIGINT   Time in which nothing ran on the GPU, ns.
-- @column kernels             BIGINT   Number of kernels, memory copies and memory sets.
-- @column steps               BIGINT   Number of steps (engine iterations).
-- @column context_tokens      BIGINT   Prompt tokens processed; NULL if unknown.
-- @column generation_tokens   BIGINT   Tokens generated; NULL if unknown.
-- @empty  the database has no trace
-- @chart  bar x=busy_pct y=rank
-- @title  How busy each rank's GPU was
WITH device AS (
    SELECT
        rank,
        CAST(SUM(dur) AS BIGINT) AS window_ns,
        CAST(COALESCE(SUM(dur) FILTER (compute OR comm OR copy), 0) AS BIGINT) AS busy_ns,
        CAST(COALESCE(SUM(dur) FILTER (comm), 0) AS BIGINT) AS comm_ns
    FROM device_state
    GROUP BY rank
),
activity AS (
    SELECT rank, COUNT(*) AS kernels FROM kernel GROUP BY rank
),
iteration AS (
    SELECT
        rank,
        COUNT(*) AS steps,
        CAST(SUM(context_tokens) AS BIGINT) AS context_tokens,
        CAST(SUM(generation_tokens) AS BIGINT) AS generation_tokens
    FROM step
    GROUP BY rank
)
SELECT
    trace.rank,
    trace.device_name,
    device.window_ns,
    device.busy_ns,
    100.0 * device.busy_ns / device.window_ns AS busy_pct,
    device.comm_ns,
    100.0 * device.comm_ns / device.window_ns AS comm_pct,
    device.window_ns - device.busy_ns AS idle_ns,
    COALESCE(activity.kernels, 0) AS kernels,
    COALESCE(iteration.steps, 0) AS steps,
    iteration.context_tokens,
    iteration.generation_tokens
FROM trace
LEFT JOIN device USING (rank)
LEFT JOIN activity USING (rank)
LEFT JOIN iteration USING (rank)
ORDER BY trace.rank
