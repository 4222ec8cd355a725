-- One row per rank, or per rank and step: how the time of the GPU is divided.
--
-- Use it to see how much time went into computation, exposed communication, exposed copies and
-- idling. computing + exposed_comm + exposed_copy + idle = window, to the nanosecond. Intervals are
-- unioned across streams. The window is the GPU span of the rank, or of a step from its first
-- kernel to its last one. Windows of steps may touch or overlap if the kernels of one step run into
-- the next.
-- @param  by               VARCHAR = 'rank'  One row per rank, or per rank and step.
-- @param  rank             BIGINT  = NULL    Only this rank; all ranks by default.
-- @values by               rank step
-- @column rank             BIGINT   Rank.
-- @column step_id          BIGINT   Step; NULL if by is rank.
-- @column window_ns        BIGINT   Length of the window, ns.
-- @column computing_ns     BIGINT   Time in which a compute kernel ran, ns.
-- @column exposed_comm_ns  BIGINT   Time in which a collective ran and no compute kernel, ns.
-- @column exposed_copy_ns  BIGINT   Time in which a memory copy or set ran, but no compute kernel and no collective, ns.
-- @column idle_ns          BIGINT   Time in which nothing ran, ns.
-- @column overlap_ns       BIGINT   Time in which a collective and a compute kernel ran, ns.
-- @column overlap_pct      DOUBLE   overlap_ns in percent of all collective time; NULL without collectives.
-- @empty  the trace has no GPU activity
-- @chart  stacked x=computing_ns,exposed_comm_ns,exposed_copy_ns,idle_ns y=rank
-- @title  Where each rank's time went
WITH requested_window AS (
    SELECT rank, NULL AS step_id, MIN(ts) AS ts, MAX(ts + dur) AS end_ts
    FROM device_state
    WHERE $by::VARCHAR = 'rank'
    GROUP BY rank
    UNION ALL
    SELECT rank, step_id, gpu_ts, gpu_ts + gpu_dur
    FROM step
    WHERE $by::VARCHAR = 'step' AND gpu_ts IS NOT NULL
),
clipped AS (
    SELECT
        requested_window.rank,
        requested_window.step_id,
        device_state.compute,
        device_state.comm,
        device_state.copy,
        LEAST(device_state.ts + device_state.dur, requested_window.end_ts)
        - GREATEST(device_state.ts, requested_window.ts) AS dur
    FROM requested_window
    INNER JOIN device_state
        ON requested_window.rank = device_state.rank
        AND device_state.ts < requested_window.end_ts
        AND device_state.ts + device_state.dur > requested_window.ts
    WHERE $rank::BIGINT IS NULL OR requested_window.rank = $rank::BIGINT
),
summed AS (
    SELECT
        rank,
        step_id,
        SUM(dur) AS window_ns,
        SUM(dur) FILTER (compute) AS computing_ns,
        SUM(dur) FILTER (comm AND NOT compute) AS exposed_comm_ns,
        SUM(dur) FILTER (copy AND NOT comm AND NOT compute) AS exposed_copy_ns,
        SUM(dur) FILTER (NOT (copy OR comm OR compute)) AS idle_ns,
        SUM(dur) FILTER (comm AND compute) AS overlap_ns,
        SUM(dur) FILTER (comm) AS comm_ns
    FROM clipped
    GROUP BY rank, step_id
)
SELECT
    rank,
    step_id,
    CAST(window_ns AS BIGINT) AS window_ns,
    CAST(COALESCE(computing_ns, 0) AS BIGINT) AS computing_ns,
    CAST(COALESCE(exposed_comm_ns, 0) AS BIGINT) AS exposed_comm_ns,
    CAST(COALESCE(exposed_copy_ns, 0) AS BIGINT) AS exposed_copy_ns,
    CAST(COALESCE(idle_ns, 0) AS BIGINT) AS idle_ns,
    CAST(COALESCE(overlap_ns, 0) AS BIGINT) AS overlap_ns,
    100.0 * COALESCE(overlap_ns, 0) / comm_ns AS overlap_pct
FROM summed
ORDER BY rank, step_id
