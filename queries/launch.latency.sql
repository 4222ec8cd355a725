-- One row per rank and launch call: how long the call takes, and how long until its kernel starts.
--
-- Use it to tell launch overhead from a busy GPU. The start latency runs from the beginning of the
-- call to the start of the first kernel that it launched (a graph launch has many). It includes
-- waiting behind earlier kernels. The idle_start columns count only launches that found their
-- stream empty, which gives the pure launch latency. Where the clocks of host and GPU do not agree,
-- all of them are NULL; the ledger says so.
-- @param  rank               BIGINT  = NULL  Only this rank; all ranks by default.
-- @column rank               BIGINT   Rank.
-- @column name               VARCHAR  CUDA runtime or driver call.
-- @column launches           BIGINT   Calls that launched any GPU activity.
-- @column kernels            BIGINT   GPU activities that these calls launched.
-- @column call_p50_ns        DOUBLE   Duration of the call on the host, median, ns.
-- @column call_p99_ns        DOUBLE   Duration of the call on the host, 99th percentile, ns.
-- @column start_p50_ns       DOUBLE   From the call to the start of its first kernel, median, ns; NULL if the clocks do not agree.
-- @column start_p99_ns       DOUBLE   From the call to the start of its first kernel, 99th percentile, ns.
-- @column idle_launches      BIGINT   Launches that found their stream empty.
-- @column idle_start_p50_ns  DOUBLE   From the call to the start of its first kernel on an empty stream, median, ns.
-- @column idle_start_p99_ns  DOUBLE   From the call to the start of its first kernel on an empty stream, 99th percentile, ns.
-- @key    rank name launches call_p50_ns start_p50_ns idle_start_p50_ns call_p99_ns start_p99_ns
-- @empty  no kernel has a launch call in the trace; record CPU and GPU activities
-- @chart  bar x=start_p50_ns y=name group=rank
-- @title  From a launch call to the start of its kernel
WITH activity AS (
    SELECT
        rank, launch_id, ts,
        LAG(ts + GREATEST(dur, 0)) OVER (
            PARTITION BY rank, device, stream ORDER BY ts, id
        ) AS previous_end_ts
    FROM kernel
),
first_activity AS (
    SELECT
        rank, launch_id,
        COUNT(*) AS kernels,
        MIN(ts) AS ts,
        arg_min_null(previous_end_ts, ts) AS previous_end_ts
    FROM activity
    WHERE launch_id IS NOT NULL AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
    GROUP BY rank, launch_id
),
launched AS (
    SELECT
        launch.rank, launch.name, launch.dur, first_activity.kernels,
        first_activity.ts - launch.ts AS start_ns,
        launch.ts IS NOT NULL AND COALESCE(first_activity.previous_end_ts <= launch.ts, TRUE) AS was_idle,
        host_clock.agrees
    FROM first_activity
    INNER JOIN launch ON first_activity.launch_id = launch.id
    LEFT JOIN host_clock ON launch.rank = host_clock.rank
)
SELECT
    rank, name,
    COUNT(*) AS launches,
    CAST(SUM(kernels) AS BIGINT) AS kernels,
    quantile_cont(dur, 0.5) AS call_p50_ns,
    quantile_cont(dur, 0.99) AS call_p99_ns,
    quantile_cont(start_ns, 0.5) FILTER (agrees) AS start_p50_ns,
    quantile_cont(start_ns, 0.99) FILTER (agrees) AS start_p99_ns,
    CASE WHEN BOOL_AND(agrees) THEN COUNT(*) FILTER (was_idle) END AS idle_launches,
    quantile_cont(start_ns, 0.5) FILTER (agrees AND was_idle) AS idle_start_p50_ns,
    quantile_cont(start_ns, 0.99) FILTER (agrees AND was_idle) AS idle_start_p99_ns
FROM launched
GROUP BY rank, name
ORDER BY rank, launches DESC, name
