-- One row per rank and launching call: what the call costs, and how long until its kernel starts.
--
-- start is from the beginning of the call to the start of the first kernel that it launched (a
-- graph launch has many); it includes waiting behind earlier kernels. idle_start counts only
-- launches that found their stream empty: the latency itself.
-- @param  rank               BIGINT  = NULL  This rank only; all where NULL.
-- @column rank               BIGINT   Rank.
-- @column name               VARCHAR  Runtime or driver call.
-- @column launches           BIGINT   Calls that launched anything.
-- @column kernels            BIGINT   GPU activities that they launched.
-- @column call_p50_ns        DOUBLE   Median duration of the call on the host, ns.
-- @column call_p99_ns        DOUBLE   99th percentile of it, ns.
-- @column start_p50_ns       DOUBLE   Median from the call to the first kernel's start, ns.
-- @column start_p99_ns       DOUBLE   99th percentile of it, ns.
-- @column idle_launches      BIGINT   Launches that found their stream empty.
-- @column idle_start_p50_ns  DOUBLE   Median from the call to the first kernel's start of these, ns.
-- @column idle_start_p99_ns  DOUBLE   99th percentile of it, ns.
-- @chart  bar x=start_p50_ns y=name group=rank
-- @title  From a launching call to the start of its kernel
WITH activity AS (
    SELECT
        rank,
        launch_id,
        ts,
        LAG(ts + GREATEST(dur, 0)) OVER (
            PARTITION BY rank, device, stream ORDER BY ts, id
        ) AS previous_end_ts
    FROM kernel
),
first_activity AS (
    SELECT
        rank,
        launch_id,
        COUNT(*) AS kernels,
        MIN(ts) AS ts,
        arg_min_null(previous_end_ts, ts) AS previous_end_ts
    FROM activity
    WHERE launch_id IS NOT NULL AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
    GROUP BY rank, launch_id
),
launched AS (
    SELECT
        launch.rank,
        launch.name,
        launch.dur,
        first_activity.kernels,
        first_activity.ts - launch.ts AS start_ns,
        COALESCE(first_activity.previous_end_ts <= launch.ts, TRUE) AS was_idle
    FROM first_activity
    INNER JOIN launch ON first_activity.launch_id = launch.id
)
SELECT
    rank,
    name,
    COUNT(*) AS launches,
    CAST(SUM(kernels) AS BIGINT) AS kernels,
    quantile_cont(dur, 0.5) AS call_p50_ns,
    quantile_cont(dur, 0.99) AS call_p99_ns,
    quantile_cont(start_ns, 0.5) AS start_p50_ns,
    quantile_cont(start_ns, 0.99) AS start_p99_ns,
    COUNT(*) FILTER (was_idle) AS idle_launches,
    quantile_cont(start_ns, 0.5) FILTER (was_idle) AS idle_start_p50_ns,
    quantile_cont(start_ns, 0.99) FILTER (was_idle) AS idle_start_p99_ns
FROM launched
GROUP BY rank, name
ORDER BY rank, launches DESC, name
