-- One row per pipeline stage and phase: what tensor parallelism costs a step, averaged over ranks.
--
-- Use it to see how much faster a step could be with free communication. The step is divided into
-- exposed communication of the tensor-parallel communicators (comm), exposed communication with
-- other stages and replicas (other_comm), and the rest, which is what the step would take if the
-- tensor-parallel communication were free.
--
-- A step lasts from its first kernel to its last one, but not beyond the first kernel of the next
-- step. wait, transfer and unmatched are what is exposed of the operations; they add up to comm if no two
-- of them run at the same time. Steps without tensor-parallel
-- operations do not count.
-- @column pp_rank         BIGINT   Pipeline stage.
-- @column phase           VARCHAR  prefill, decode, mixed or idle; NULL if unknown.
-- @column tp_size         BIGINT   Ranks that share the stage, whether loaded or not.
-- @column steps           BIGINT   Number of steps, counted on each rank.
-- @column step_ns         DOUBLE   Mean duration of a step on the GPU, ns; the sum of comm_ns, other_comm_ns and rest_ns.
-- @column comm_ns         DOUBLE   Mean exposed communication of the tensor-parallel communicators per step, ns.
-- @column wait_ns         DOUBLE   Mean exposed wait time of their operations per step, ns; NULL if none is matched.
-- @column transfer_ns     DOUBLE   Mean exposed transfer time of their operations per step, ns; NULL if none is matched.
-- @column unmatched_ns    DOUBLE   Mean exposed time of operations that were not matched per step, so that waiting is unknown, ns; NULL if there are none.
-- @column other_comm_ns   DOUBLE   Mean exposed communication with other stages and replicas per step, ns.
-- @column rest_ns         DOUBLE   Mean rest of the step, ns: compute, copies and idle time.
-- @column ideal_ns        DOUBLE   Mean of rest_ns plus transfers at the peak of the link, ns; NULL if a size or peak is unknown.
-- @column efficiency_pct  DOUBLE   rest_ns in percent of rest_ns and comm_ns: the upper limit of the scaling efficiency.
-- @column matched_pct     DOUBLE   Percent of the operations that were matched on all ranks.
-- @column layout_source   VARCHAR  How the position of the ranks in the layout is known.
-- @key    pp_rank phase wait_ns transfer_ns comm_ns step_ns rest_ns efficiency_pct steps
-- @empty  the run has no tensor parallelism, or its ranks were not recognized; see the table layout
-- @chart  stacked x=rest_ns,transfer_ns,wait_ns,unmatched_ns,other_comm_ns y=phase
-- @title  Duration of a step with tensor parallelism
WITH operation AS (
    SELECT
        kernel.step_id,
        COUNT(*) AS calls,
        COUNT(collective.wait_ns) AS matched,
        SUM(collective_exposure.exposed_ns) AS comm_ns,
        SUM(collective_exposure.exposed_ns) FILTER (collective_exposure.exposed_wait_ns IS NULL) AS unmatched_ns,
        SUM(collective_exposure.exposed_wait_ns) AS wait_ns,
        SUM(collective_exposure.exposed_transfer_ns) AS transfer_ns,
        -- If one of them is unknown, so is the sum.
        CASE
            WHEN COUNT(*) = COUNT(collective.busbw_gbps * communicator_link.peak_gbps)
                THEN SUM(collective.transfer_ns * collective.busbw_gbps / communicator_link.peak_gbps)
        END AS at_peak_ns
    FROM collective
    INNER JOIN communicator USING (communicator_id)
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN collective_exposure USING (kernel_id)
    LEFT JOIN communicator_link USING (communicator_id)
    WHERE communicator.scope = 'tensor' AND collective.group_size > 1
    GROUP BY kernel.step_id
),
bounded AS (
    SELECT
        step_id, rank, device, phase,
        gpu_ts AS ts,
        LEAST(gpu_ts + gpu_dur, LEAD(gpu_ts) OVER (PARTITION BY rank, device ORDER BY gpu_ts, step_id)) AS end_ts
    FROM step
    WHERE gpu_ts IS NOT NULL
),
point AS (
    SELECT step_id, rank, device, ts AS at_ts, -1 AS sign FROM bounded
    UNION ALL
    SELECT step_id, rank, device, end_ts, 1 FROM bounded
),
exposed_part AS (
    SELECT rank, device, ts, dur, CAST(SUM(dur) OVER in_order - dur AS BIGINT) AS before_ns
    FROM device_timeline
    WHERE part IN ('exposed_transfer', 'exposed_wait', 'exposed_unmatched')
    WINDOW in_order AS (PARTITION BY rank, device ORDER BY ts ROWS UNBOUNDED PRECEDING)
),
exposed AS (
    SELECT
        point.step_id,
        SUM(point.sign * COALESCE(last.before_ns + LEAST(point.at_ts - last.ts, last.dur), 0)) AS ns
    FROM point
    ASOF LEFT JOIN exposed_part AS last
        ON point.rank = last.rank
        AND point.device = last.device
        AND point.at_ts >= last.ts
    GROUP BY point.step_id
),
parted AS (
    SELECT
        layout.pp_rank, layout.tp_size, layout.source, bounded.phase,
        bounded.end_ts - bounded.ts AS step_ns,
        LEAST(operation.comm_ns, exposed.ns) AS comm_ns,
        exposed.ns - LEAST(operation.comm_ns, exposed.ns) AS other_comm_ns,
        bounded.end_ts - bounded.ts - exposed.ns AS rest_ns,
        operation.unmatched_ns, operation.wait_ns, operation.transfer_ns, operation.at_peak_ns,
        operation.calls, operation.matched
    FROM bounded
    INNER JOIN operation USING (step_id)
    INNER JOIN exposed USING (step_id)
    INNER JOIN layout ON bounded.rank = layout.rank
    WHERE layout.tp_size > 1
)
SELECT
    pp_rank, phase,
    ANY_VALUE(tp_size) AS tp_size,
    COUNT(*) AS steps,
    AVG(step_ns) AS step_ns,
    AVG(comm_ns) AS comm_ns,
    SUM(wait_ns) / COUNT(*) AS wait_ns,
    SUM(transfer_ns) / COUNT(*) AS transfer_ns,
    SUM(unmatched_ns) / COUNT(*) AS unmatched_ns,
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
