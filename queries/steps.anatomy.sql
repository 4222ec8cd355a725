-- One row per kernel of one step, in order of start.
--
-- Use it to read a step kernel by kernel: what ran, in which layer and role, and how long the GPU
-- was idle before. gap_ns is the time since all earlier kernels of the step on the device had
-- ended; it is 0 if they overlap. Without a step, the query shows a typical one: the decode step of
-- median duration on the GPU, or the step of median duration if there is no decode step.
-- @param  step         BIGINT = NULL  Step (step_id, as steps.timeline lists it); the median decode step by default.
-- @column rank         BIGINT   Rank.
-- @column step_id      BIGINT   Step.
-- @column start_ns     BIGINT   Start, ns since the step's first kernel.
-- @column dur          BIGINT   Duration, ns.
-- @column gap_ns       BIGINT   Idle time of the device before the kernel, ns.
-- @column stream       BIGINT   Stream.
-- @column layer        BIGINT   Model layer, from 0; NULL outside layers.
-- @column role         VARCHAR  Part of the model.
-- @column category     VARCHAR  Kernel category.
-- @column name         VARCHAR  Name of the kernel.
-- @column layer_source VARCHAR  How layer and role are known.
-- @column id           BIGINT   Row of kernel.
-- @key    start_ns dur gap_ns role name layer category stream
-- @empty  there is no such step, or no kernel belongs to it; list the steps with steps.timeline
-- @chart  timeline x=start_ns width=dur y=role color=role
-- @title  One step, kernel by kernel
WITH candidate AS (
    SELECT step_id, gpu_dur
    FROM step
    WHERE
        $step::BIGINT IS NULL
        AND gpu_dur IS NOT NULL
        AND (phase = 'decode' OR NOT EXISTS (FROM step WHERE phase = 'decode' AND gpu_dur IS NOT NULL))
),
chosen AS (
    SELECT $step::BIGINT AS step_id WHERE $step::BIGINT IS NOT NULL
    UNION ALL
    FROM (
        SELECT step_id
        FROM candidate
        ORDER BY ABS(gpu_dur - (SELECT quantile_disc(gpu_dur, 0.5) FROM candidate)), step_id
        LIMIT 1
    )
)
SELECT
    rank, step_id,
    ts - MIN(ts) OVER () AS start_ns,
    dur,
    GREATEST(0, ts - COALESCE(MAX(ts + GREATEST(dur, 0)) OVER (
        PARTITION BY device ORDER BY ts, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), ts)) AS gap_ns,
    stream, layer, role, category, name, layer_source, id
FROM kernel
WHERE step_id IN (FROM chosen)
ORDER BY ts, id
