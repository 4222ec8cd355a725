-- One row per rank (or device of a rank with several), or per phase or step of it: how the time of the GPU is divided.
--
-- Use it to see how much time went into computation, communication, waiting for other ranks, copies
-- and idling. computing + exposed_transfer + exposed_wait + exposed_unmatched + exposed_copy + idle =
-- window, to the nanosecond. Intervals are unioned across streams. The window is the GPU span of the
-- device, the part of it that belongs to steps of a phase (see device_timeline.step_id), or the GPU time of a
-- step (step.gpu_ts and gpu_dur). Windows of steps overlap by 2% at most; those of phases add up to the rank's.
-- @param  by                    VARCHAR = 'rank'  One row per rank, per rank and phase, or per rank and step.
-- @param  rank                  BIGINT  = NULL    Only this rank; all ranks by default.
-- @values by                    rank phase step
-- @column rank                  BIGINT   Rank.
-- @column device                BIGINT   Number of the device on its machine; NULL if the rank has only one.
-- @column phase                 VARCHAR  Phase of the step; NULL if by is rank, and for time that belongs to no step.
-- @column step_id               BIGINT   Step; NULL unless by is step.
-- @column window_ns             BIGINT   Length of the window, ns.
-- @column computing_ns          BIGINT   Time in which a compute kernel ran, ns.
-- @column exposed_comm_ns       BIGINT   Time in which a collective ran and no compute kernel, ns: the sum of the next three columns.
-- @column exposed_transfer_ns   BIGINT   Part of it in which a collective transferred data, ns; NULL if all exposed operations in the window are unmatched.
-- @column exposed_wait_ns       BIGINT   Part of it in which collectives only waited for a late rank, ns; NULL if all exposed operations in the window are unmatched.
-- @column exposed_unmatched_ns  BIGINT   Part of it in operations that were not matched, so that waiting is unknown, ns; NULL if there are none.
-- @column exposed_copy_ns       BIGINT   Time in which a memory copy or set ran, but no compute kernel and no collective, ns.
-- @column idle_ns               BIGINT   Time in which nothing ran, ns.
-- @column overlap_ns            BIGINT   Time in which a collective and a compute kernel ran, ns.
-- @column overlap_pct           DOUBLE   overlap_ns in percent of all collective time; NULL without collectives.
-- @key    rank device phase step_id window_ns computing_ns exposed_transfer_ns exposed_wait_ns exposed_unmatched_ns idle_ns exposed_copy_ns
-- @empty  the trace has no GPU activity
-- @chart  stacked x=computing_ns,exposed_transfer_ns,exposed_wait_ns,exposed_unmatched_ns,exposed_copy_ns,idle_ns y=rank,device
-- @title  Where each rank's time went
WITH cut AS (
    SELECT
        device_timeline.rank, device_timeline.device,
        CASE WHEN $by::VARCHAR = 'phase' THEN device_timeline.phase END AS phase,
        NULL AS step_id,
        device_timeline.part, device_timeline.is_overlapped, device_timeline.dur
    FROM device_timeline
    WHERE $by::VARCHAR <> 'step'
    UNION ALL
    SELECT
        step.rank, step.device, step.phase, step.step_id, device_timeline.part, device_timeline.is_overlapped,
        LEAST(device_timeline.ts + device_timeline.dur, step.gpu_ts + step.gpu_dur) - GREATEST(device_timeline.ts, step.gpu_ts)
    FROM step
    INNER JOIN device_timeline
        ON step.rank = device_timeline.rank
        AND step.device = device_timeline.device
        AND device_timeline.ts < step.gpu_ts + step.gpu_dur
        AND device_timeline.ts + device_timeline.dur > step.gpu_ts
    WHERE $by::VARCHAR = 'step'
),
summed AS (
    SELECT
        rank, device, phase, step_id,
        SUM(dur) AS window_ns,
        SUM(dur) FILTER (part = 'computing') AS computing_ns,
        SUM(dur) FILTER (part = 'exposed_transfer') AS transfer_ns,
        SUM(dur) FILTER (part = 'exposed_wait') AS wait_ns,
        SUM(dur) FILTER (part = 'exposed_unmatched') AS unmatched_ns,
        SUM(dur) FILTER (part = 'exposed_copy') AS copy_ns,
        SUM(dur) FILTER (part = 'idle') AS idle_ns,
        COALESCE(SUM(dur) FILTER (is_overlapped), 0) AS overlap_ns
    FROM cut
    WHERE $rank::BIGINT IS NULL OR rank = $rank::BIGINT
    GROUP BY rank, device, phase, step_id
),
counted AS (
    SELECT
        *,
        COALESCE(transfer_ns, 0) + COALESCE(wait_ns, 0) + COALESCE(unmatched_ns, 0) AS comm_ns,
        COALESCE(transfer_ns, wait_ns) IS NOT NULL OR unmatched_ns IS NULL AS is_known
    FROM summed
)
SELECT
    rank,
    device_if_several(rank, device) AS device,
    phase, step_id,
    CAST(window_ns AS BIGINT) AS window_ns,
    CAST(COALESCE(computing_ns, 0) AS BIGINT) AS computing_ns,
    CAST(comm_ns AS BIGINT) AS exposed_comm_ns,
    CAST(CASE WHEN is_known THEN COALESCE(transfer_ns, 0) END AS BIGINT) AS exposed_transfer_ns,
    CAST(CASE WHEN is_known THEN COALESCE(wait_ns, 0) END AS BIGINT) AS exposed_wait_ns,
    CAST(unmatched_ns AS BIGINT) AS exposed_unmatched_ns,
    CAST(COALESCE(copy_ns, 0) AS BIGINT) AS exposed_copy_ns,
    CAST(COALESCE(idle_ns, 0) AS BIGINT) AS idle_ns,
    CAST(overlap_ns AS BIGINT) AS overlap_ns,
    100.0 * overlap_ns / NULLIF(comm_ns + overlap_ns, 0) AS overlap_pct
FROM counted
ORDER BY rank, counted.device * ($by::VARCHAR <> 'step')::BIGINT, window_ns * ($by::VARCHAR = 'phase')::BIGINT DESC, step_id
