-- One row per pipeline stage and phase: what tensor parallelism costs a step, a mean over ranks.
--
-- A step lasts from its first kernel to its last one, but no longer than to the first kernel of the
-- next step. Of that, comm is time in which operations of the ranks of one stage of one replica ran
-- and nothing was computed; other_comm that of operations with other stages and replicas; the rest
-- is what the step would take if its group's communication were free. wait and transfer are of the
-- operations' own duration: they add up to comm where computing hides none and all are matched.
-- Steps without such operations are left out; no rows without tensor parallelism.
-- @column pp_rank         BIGINT   Pipeline stage.
-- @column phase           VARCHAR  prefill, decode, mixed or idle; NULL where the trace does not say.
-- @column tp_size         BIGINT   Ranks that share a stage, loaded or not.
-- @column steps           BIGINT   Steps, counted on each rank.
-- @column step_ns         DOUBLE   Duration of a step on the GPU, mean, ns; comm, other_comm and rest add up to it.
-- @column comm_ns         DOUBLE   Of that, communication of the group that computing does not hide, mean, ns.
-- @column wait_ns         DOUBLE   Waiting of the group's operations for the last rank, mean, ns; NULL where none is matched.
-- @column transfer_ns     DOUBLE   The rest of their duration, mean, ns.
-- @column other_comm_ns   DOUBLE   Of the step, other communication that computing does not hide, mean, ns.
-- @column rest_ns         DOUBLE   Of the step, all else: computing, copies and idle, mean, ns.
-- @column ideal_ns        DOUBLE   rest and the transfers at the peak of the group's link, mean, ns; NULL where a size or the peak is not known.
-- @column efficiency_pct  DOUBLE   rest in percent of rest and comm: the most that scaling can be.
-- @column matched_pct     DOUBLE   Percent of the operations that were found on all ranks.
-- @column layout_source   VARCHAR  How the ranks' places are known.
-- @empty  no tensor-parallel ranks were recognised; the table layout says what was
-- @chart  stacked x=rest_ns,comm_ns,other_comm_ns y=phase
-- @title  What tensor parallelism costs a step
WITH operation AS (
    SELECT
        kernel.step_id,
        COUNT(*) AS calls,
        COUNT(collective.wait_ns) AS matched,
        SUM(kernel.dur - hidden_operation.hidden_ns) AS comm_ns,
        SUM(collective.wait_ns) AS wait_ns,
        SUM(collective.transfer_ns) AS transfer_ns,
        -- Where one is not known, the sum is not.
        CASE
            WHEN COUNT(*) = COUNT(collective.busbw_gbps * group_link.peak_gbps)
                THEN SUM(collective.transfer_ns * collective.busbw_gbps / group_link.peak_gbps)
        END AS at_peak_ns
    FROM collective
    INNER JOIN communicator USING (communicator_id)
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN hidden_operation USING (kernel_id)
    LEFT JOIN group_link USING (communicator_id)
    WHERE communicator.scope = 'tensor' AND collective.group_size > 1
    GROUP BY kernel.step_id
),
bounded AS (
    SELECT
        step_id,
        rank,
        phase,
        gpu_ts AS ts,
        LEAST(gpu_ts + gpu_dur, LEAD(gpu_ts) OVER (PARTITION BY rank ORDER BY gpu_ts, step_id)) AS end_ts
    FROM step
    WHERE gpu_ts IS NOT NULL
),
communicating AS (
    SELECT
        rank,
        device,
        ts,
        dur,
        SUM(dur) OVER (
            PARTITION BY rank, device ORDER BY ts ROWS UNBOUNDED PRECEDING
        ) - dur AS before_ns
    FROM device_state
    WHERE comm AND NOT compute
),
device AS (
    SELECT DISTINCT rank, device FROM device_state
),
point AS (
    SELECT bounded.step_id, bounded.rank, device.device, bounded.ts, -1 AS sign
    FROM bounded
    INNER JOIN device USING (rank)
    UNION ALL
    SELECT bounded.step_id, bounded.rank, device.device, bounded.end_ts, 1
    FROM bounded
    INNER JOIN device USING (rank)
),
exposed AS (
    SELECT
        point.step_id,
        SUM(point.sign * COALESCE(
            communicating.before_ns + LEAST(point.ts - communicating.ts, communicating.dur), 0
        )) AS ns
    FROM point
    ASOF LEFT JOIN communicating
        ON point.rank = communicating.rank
        AND point.device = communicating.device
        AND point.ts >= communicating.ts
    GROUP BY point.step_id
),
parted AS (
    SELECT
        layout.pp_rank,
        layout.tp_size,
        layout.source,
        bounded.phase,
        bounded.end_ts - bounded.ts AS step_ns,
        LEAST(operation.comm_ns, exposed.ns) AS comm_ns,
        exposed.ns - LEAST(operation.comm_ns, exposed.ns) AS other_comm_ns,
        bounded.end_ts - bounded.ts - exposed.ns AS rest_ns,
        operation.wait_ns,
        operation.transfer_ns,
        operation.at_peak_ns,
        operation.calls,
        operation.matched
    FROM bounded
    INNER JOIN operation USING (step_id)
    INNER JOIN exposed USING (step_id)
    INNER JOIN layout ON bounded.rank = layout.rank
    WHERE layout.tp_size > 1
)
SELECT
    pp_rank,
    phase,
    ANY_VALUE(tp_size) AS tp_size,
    COUNT(*) AS steps,
    AVG(step_ns) AS step_ns,
    AVG(comm_ns) AS comm_ns,
    SUM(wait_ns) / COUNT(*) AS wait_ns,
    SUM(transfer_ns) / COUNT(*) AS transfer_ns,
    AVG(other_comm_ns) AS other_comm_ns,
    AVG(rest_ns) AS rest_ns,
    CASE
        WHEN COUNT(*) = COUNT(at_peak_ns) THEN AVG(rest_ns + at_peak_ns)
    END AS ideal_ns,
    100.0 * SUM(rest_ns) / NULLIF(SUM(rest_ns + comm_ns), 0) AS efficiency_pct,
    100.0 * SUM(matched) / SUM(calls) AS matched_pct,
    ANY_VALUE(source) AS layout_source
FROM parted
GROUP BY pp_rank, phase
ORDER BY pp_rank, phase
