-- One row per rank, or per device of a rank with several: what was recorded, and how busy the GPU was.
--
-- Use it as the first look at a run and to compare its ranks. computing, exposed transfer, waiting,
-- exposed copies (not shown) and idle time add up to the window; time.breakdown has all parts.
-- @column rank                  BIGINT   Rank.
-- @column device                BIGINT   Number of the device on its machine; NULL if the rank has only one.
-- @column device_name           VARCHAR  Model of the GPU.
-- @column window_ns             BIGINT   GPU span: from the first start to the last end of any activity of the device, ns.
-- @column computing_ns          BIGINT   Time in which a compute kernel ran, ns.
-- @column computing_pct         DOUBLE   computing_ns in percent of the window.
-- @column exposed_transfer_ns   BIGINT   Time in which a collective transferred data and no compute kernel ran, ns; NULL if all exposed operations are unmatched.
-- @column exposed_wait_ns       BIGINT   Time in which collectives only waited for a late rank, ns; NULL if all exposed operations are unmatched.
-- @column exposed_unmatched_ns  BIGINT   Time in collectives that were not matched, so that waiting is unknown, ns; NULL if there are none.
-- @column idle_ns               BIGINT   Time in which nothing ran on the GPU, ns.
-- @column kernels             BIGINT   Number of kernels, memory copies and memory sets.
-- @column steps               BIGINT   Number of steps (engine iterations).
-- @column context_tokens      BIGINT   Prompt tokens processed; NULL if unknown.
-- @column generation_tokens   BIGINT   Tokens generated; NULL if unknown.
-- @key    rank device window_ns computing_pct exposed_transfer_ns exposed_wait_ns exposed_unmatched_ns idle_ns steps computing_ns
-- @empty  the database has no trace
-- @chart  bar x=computing_pct y=rank,device
-- @title  Share of its time in which each rank's GPU computed
WITH device AS (
    SELECT
        rank, device,
        CAST(SUM(dur) AS BIGINT) AS window_ns,
        CAST(COALESCE(SUM(dur) FILTER (part = 'computing'), 0) AS BIGINT) AS computing_ns,
        CAST(SUM(dur) FILTER (part = 'exposed_transfer') AS BIGINT) AS exposed_transfer_ns,
        CAST(SUM(dur) FILTER (part = 'exposed_wait') AS BIGINT) AS exposed_wait_ns,
        CAST(SUM(dur) FILTER (part = 'exposed_unmatched') AS BIGINT) AS exposed_unmatched_ns,
        CAST(COALESCE(SUM(dur) FILTER (part = 'idle'), 0) AS BIGINT) AS idle_ns
    FROM device_timeline
    GROUP BY rank, device
),
activity AS (
    SELECT rank, device, COUNT(*) AS kernels FROM kernel GROUP BY rank, device
),
iteration AS (
    SELECT
        rank, device,
        COUNT(*) AS steps,
        CAST(SUM(context_tokens) AS BIGINT) AS context_tokens,
        CAST(SUM(generation_tokens) AS BIGINT) AS generation_tokens
    FROM step
    GROUP BY rank, device
)
SELECT
    trace.rank,
    device_if_several(trace.rank, device.device) AS device,
    trace.device_name, device.window_ns, device.computing_ns,
    100.0 * device.computing_ns / NULLIF(device.window_ns, 0) AS computing_pct,
    device.exposed_transfer_ns, device.exposed_wait_ns, device.exposed_unmatched_ns, device.idle_ns,
    COALESCE(activity.kernels, 0) AS kernels,
    COALESCE(iteration.steps, 0) AS steps,
    iteration.context_tokens, iteration.generation_tokens
FROM trace
LEFT JOIN device USING (rank)
LEFT JOIN activity ON trace.rank = activity.rank AND device.device = activity.device
LEFT JOIN iteration ON trace.rank = iteration.rank AND device.device IS NOT DISTINCT FROM iteration.device
WHERE trace.rank IS NOT NULL
ORDER BY trace.rank, device.device
