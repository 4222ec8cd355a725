-- One row per operation and role: how often, how much, and how long it waited and moved bytes.
--
-- Waiting is time before the last rank arrived; transfer is the rest. Both are NULL for operations
-- that were not found on all their ranks (matched counts those that were). Sums are over ranks.
-- @param  rank              BIGINT = NULL  This rank only; all where NULL.
-- @param  phase             VARCHAR = NULL  Steps of this phase only; all where NULL.
-- @values phase             prefill decode mixed idle
-- @column op                VARCHAR  all_reduce, all_gather, reduce_scatter, send, recv ...
-- @column role              VARCHAR  Part of the model that asked for it; NULL where not known.
-- @column group_ranks       VARCHAR  Ranks that take part.
-- @column calls             BIGINT   Operations, counted on each rank.
-- @column matched           BIGINT   Of these, found on all ranks that take part.
-- @column bytes             BIGINT   Size of the whole buffers, summed; NULL where none is known.
-- @column dur_ns            BIGINT   Duration of the kernels, ns.
-- @column wait_ns           BIGINT   Of the matched ones, waiting for the last rank, ns.
-- @column transfer_ns       BIGINT   Of the matched ones, the rest, ns.
-- @column wait_pct          DOUBLE   wait in percent of wait and transfer.
-- @column step_pct          DOUBLE   dur in percent of the GPU spans of the steps that have it.
-- @column busbw_p10_gbps    DOUBLE   10th percentile of the bus bandwidth, 1e9 bytes per second.
-- @column busbw_p50_gbps    DOUBLE   Median of the bus bandwidth.
-- @column busbw_p90_gbps    DOUBLE   90th percentile of the bus bandwidth.
-- @chart  stacked x=wait_ns,transfer_ns y=role
-- @title  Waiting against moving bytes, by role
WITH called AS (
    SELECT collective.*, kernel.role, kernel.step_id, kernel.dur, step.gpu_dur
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    LEFT JOIN step USING (step_id)
    WHERE
        ($rank::BIGINT IS NULL OR collective.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
),
in_steps AS (
    SELECT op, role, communicator_id, SUM(gpu_dur) AS step_ns
    FROM (SELECT DISTINCT op, role, communicator_id, step_id, gpu_dur FROM called)
    GROUP BY op, role, communicator_id
)
SELECT
    called.op,
    called.role,
    called.group_ranks,
    COUNT(*) AS calls,
    COUNT(called.wait_ns) AS matched,
    CAST(SUM(called.bytes) AS BIGINT) AS bytes,
    CAST(SUM(called.dur) AS BIGINT) AS dur_ns,
    CAST(SUM(called.wait_ns) AS BIGINT) AS wait_ns,
    CAST(SUM(called.transfer_ns) AS BIGINT) AS transfer_ns,
    100.0 * SUM(called.wait_ns) / NULLIF(SUM(called.wait_ns + called.transfer_ns), 0) AS wait_pct,
    100.0 * SUM(called.dur) FILTER (called.gpu_dur IS NOT NULL)
    / NULLIF(ANY_VALUE(in_steps.step_ns), 0) AS step_pct,
    quantile_cont(called.busbw_gbps, 0.1) AS busbw_p10_gbps,
    quantile_cont(called.busbw_gbps, 0.5) AS busbw_p50_gbps,
    quantile_cont(called.busbw_gbps, 0.9) AS busbw_p90_gbps
FROM called
LEFT JOIN in_steps
    ON called.op = in_steps.op
    AND called.role IS NOT DISTINCT FROM in_steps.role
    AND called.communicator_id = in_steps.communicator_id
GROUP BY called.op, called.role, called.communicator_id, called.group_ranks
ORDER BY dur_ns DESC, called.op, called.role, called.group_ranks
