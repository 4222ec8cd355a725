-- One row per rank (or device of a rank with several), or per step or layer of it: overlapped and exposed communication.
--
-- Use it to see how well each rank overlaps its communication with computation. Communication is
-- the union of all kernels of category collective, across streams. What is not overlapped is either
-- transfer or waiting for a late rank. The window is the GPU span of the device, the GPU time of a
-- step (step.gpu_ts and gpu_dur), or the passes of a layer, from its first kernel to its last one.
-- @param  by               VARCHAR = 'rank'  One row per rank, per step or per layer.
-- @values by               rank step layer
-- @param  rank             BIGINT  = NULL    Only this rank; all ranks by default.
-- @column rank                  BIGINT  Rank.
-- @column device                BIGINT  Number of the device on its machine; NULL if the rank has only one.
-- @column step_id               BIGINT  Step; NULL if by is rank or layer.
-- @column layer                 BIGINT  Model layer; NULL if by is rank or step.
-- @column comm_ns               BIGINT  Time in which a collective ran, ns.
-- @column overlap_ns            BIGINT  Time in which a collective and a compute kernel ran, ns.
-- @column exposed_comm_ns       BIGINT  Time in which a collective ran and no compute kernel, ns.
-- @column exposed_transfer_ns   BIGINT  Part of it in which a collective transferred data, ns; NULL if all exposed operations are unmatched.
-- @column exposed_wait_ns       BIGINT  Part of it in which collectives only waited for a late rank, ns; NULL if all exposed operations are unmatched.
-- @column exposed_unmatched_ns  BIGINT  Part of it in operations that were not matched, so that waiting is unknown, ns; NULL if there are none.
-- @column overlap_pct           DOUBLE  overlap_ns in percent of comm_ns; NULL without collectives.
-- @column window_ns             BIGINT  Length of the window, ns.
-- @column exposed_pct           DOUBLE  exposed_comm_ns in percent of the window.
-- @key    rank device step_id layer exposed_transfer_ns exposed_wait_ns exposed_unmatched_ns overlap_ns comm_ns exposed_pct
-- @empty  the trace has no GPU activity, or no layers were recognized (with --by layer; traceql check says why)
-- @chart  stacked x=overlap_ns,exposed_transfer_ns,exposed_wait_ns,exposed_unmatched_ns y=rank,device
-- @title  Overlapped and exposed communication of each rank
WITH requested_window AS (
    SELECT
        rank, device,
        NULL::BIGINT AS step_id,
        NULL::BIGINT AS layer,
        MIN(ts) AS ts,
        MAX(ts + dur) AS end_ts
    FROM device_state
    WHERE $by::VARCHAR = 'rank'
    GROUP BY rank, device
    UNION ALL
    SELECT rank, device, step_id, NULL, gpu_ts, gpu_ts + gpu_dur
    FROM step
    WHERE $by::VARCHAR = 'step' AND gpu_ts IS NOT NULL
    UNION ALL
    SELECT rank, device, NULL, layer, ts, ts + dur
    FROM layer
    WHERE $by::VARCHAR = 'layer'
),
point AS (
    SELECT *, ts AS at_ts, -1 AS sign FROM requested_window
    UNION ALL
    SELECT *, end_ts, 1 FROM requested_window
),
-- For each interval in which a device communicated, how long it had done so before.
communicated AS (
    SELECT
        rank, device, ts, dur, part,
        CAST(SUM(dur) OVER in_order - dur AS BIGINT) AS comm_ns,
        CAST(COALESCE(SUM(dur) FILTER (part = 'computing') OVER before, 0) AS BIGINT) AS overlap_ns,
        CAST(COALESCE(SUM(dur) FILTER (part = 'exposed_wait') OVER before, 0) AS BIGINT) AS wait_ns,
        CAST(COALESCE(SUM(dur) FILTER (part = 'exposed_unmatched') OVER before, 0) AS BIGINT) AS unmatched_ns
    FROM device_timeline
    WHERE is_overlapped OR part IN ('exposed_transfer', 'exposed_wait', 'exposed_unmatched')
    WINDOW
        in_order AS (PARTITION BY rank, device ORDER BY ts ROWS UNBOUNDED PRECEDING),
        before AS (PARTITION BY rank, device ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
-- The communication until a point is that before the last interval that began by then, and of that
-- interval the part before the point.
until AS (
    SELECT
        point.*, last.comm_ns, last.overlap_ns, last.wait_ns, last.unmatched_ns, last.part,
        LEAST(point.at_ts - last.ts, last.dur) AS ns
    FROM point
    ASOF LEFT JOIN communicated AS last
        ON point.rank = last.rank
        AND point.device = last.device
        AND point.at_ts >= last.ts
    WHERE $rank::BIGINT IS NULL OR point.rank = $rank::BIGINT
),
summed AS (
    SELECT
        rank, device, step_id, layer,
        CAST(SUM(sign * at_ts) AS BIGINT) AS window_ns,
        CAST(SUM(sign * COALESCE(comm_ns + ns, 0)) AS BIGINT) AS comm_ns,
        CAST(SUM(
            sign * COALESCE(overlap_ns + CASE part WHEN 'computing' THEN ns ELSE 0 END, 0)
        ) AS BIGINT) AS overlap_ns,
        CAST(SUM(
            sign * COALESCE(wait_ns + CASE part WHEN 'exposed_wait' THEN ns ELSE 0 END, 0)
        ) AS BIGINT) AS wait_ns,
        CAST(SUM(
            sign * COALESCE(unmatched_ns + CASE part WHEN 'exposed_unmatched' THEN ns ELSE 0 END, 0)
        ) AS BIGINT) AS unmatched_ns
    FROM until
    GROUP BY rank, device, step_id, layer
),
split AS (
    SELECT
        *,
        comm_ns - overlap_ns AS exposed_comm_ns,
        unmatched_ns = 0 OR unmatched_ns < comm_ns - overlap_ns AS is_known
    FROM summed
)
SELECT
    rank,
    device_if_several(rank, device) AS device,
    step_id, layer, comm_ns, overlap_ns, exposed_comm_ns,
    CASE WHEN is_known THEN exposed_comm_ns - wait_ns - unmatched_ns END AS exposed_transfer_ns,
    CASE WHEN is_known THEN wait_ns END AS exposed_wait_ns,
    NULLIF(unmatched_ns, 0) AS exposed_unmatched_ns,
    100.0 * overlap_ns / NULLIF(comm_ns, 0) AS overlap_pct,
    window_ns,
    100.0 * exposed_comm_ns / NULLIF(window_ns, 0) AS exposed_pct
FROM split
ORDER BY rank, step_id, layer, split.device
