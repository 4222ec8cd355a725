-- One row per operation, role and communicator: count, size, wait time, transfer time, bandwidth.
--
-- Use it to see which collectives take time, and whether they wait or transfer data. Wait time is
-- the time until the late rank has begun; transfer time is the rest. Both are NULL for operations
-- that were not matched on all their ranks. Sums are across ranks. Sizes that the trace does not
-- have come with traceql load --model-config config.json.
-- @param  rank              BIGINT = NULL  Only this rank; all ranks by default.
-- @param  phase             VARCHAR = NULL  Only steps of this phase; all by default.
-- @values phase             prefill decode mixed idle
-- @column op                VARCHAR  Operation: all_reduce, all_gather, reduce_scatter, send, recv ...
-- @column role              VARCHAR  Part of the model that the operation belongs to; NULL if unknown.
-- @column group_ranks       VARCHAR  Ranks of the communicator: the loaded ones, and others that events name.
-- @column calls             BIGINT   Operations, counted on each rank.
-- @column matched           BIGINT   Operations that were matched on all ranks of the communicator.
-- @column bytes             BIGINT   Total size of the whole buffers, bytes; NULL if unknown.
-- @column dur_ns            BIGINT   Total duration of the kernels, ns.
-- @column wait_ns           BIGINT   Time that matched operations waited for the late rank, ns.
-- @column transfer_ns       BIGINT   Transfer time of matched operations, ns.
-- @column wait_pct          DOUBLE   wait_ns in percent of wait_ns and transfer_ns.
-- @column step_pct          DOUBLE   Duration in percent of the GPU spans of the steps that have the operation.
-- @column busbw_p10_gbps    DOUBLE   Bus bandwidth, 10th percentile, 1e9 bytes per second.
-- @column busbw_p50_gbps    DOUBLE   Bus bandwidth, median, 1e9 bytes per second.
-- @column busbw_p90_gbps    DOUBLE   Bus bandwidth, 90th percentile, 1e9 bytes per second.
-- @key    role op wait_ns transfer_ns wait_pct calls busbw_p50_gbps dur_ns
-- @empty  there are no collectives in the trace
-- @chart  stacked x=transfer_ns,wait_ns y=role
-- @title  Wait time and transfer time by role
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
    called.op, called.role, called.group_ranks,
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
