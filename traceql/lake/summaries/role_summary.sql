-- One row per rank, phase, size of the batch and role: how long the role's kernels take in a step.
--
-- Time in which collectives waited for another rank is told apart: no kernel is to blame for it.
-- @column rank       BIGINT   Rank.
-- @column phase      VARCHAR  Phase of the steps; unknown if they do not tell.
-- @column rows_to    BIGINT   Rows that the kernels of a step run, padding included, rounded up: to a multiple of 8, beyond 256 to a power of two; NULL if unknown.
-- @column role       VARCHAR  Part of the model; other if unknown.
-- @column steps      BIGINT   Steps.
-- @column kernels    BIGINT   Kernels in all of them.
-- @column total_ns   BIGINT   Their durations without waiting, ns.
-- @column wait_ns    BIGINT   Wait time in them, ns.
-- @column median_ns  BIGINT   Median of a step, without waiting, ns: of two in the middle, the shorter one.
-- @column least_ns   BIGINT   Least of a step, without waiting, ns.
WITH one_kernel AS (
    SELECT
        kernel.step_id,
        COALESCE(kernel.role, 'other') AS role,
        kernel.dur,
        COALESCE(collective.wait_ns, 0) AS wait_ns
    FROM kernel
    LEFT JOIN collective ON kernel.id = collective.kernel_id
    WHERE kernel.step_id IS NOT NULL
),
one_step AS (
    SELECT step_id, role, COUNT(*) AS kernels, SUM(dur - wait_ns) AS ns, SUM(wait_ns) AS wait_ns
    FROM one_kernel
    GROUP BY step_id, role
),
sized AS (
    SELECT
        step.rank,
        COALESCE(step.phase, 'unknown') AS phase,
        COALESCE(step_tokens.executed_tokens, step_tokens.tokens) AS rows_run,
        one_step.*
    FROM one_step
    INNER JOIN step USING (step_id)
    LEFT JOIN step_tokens USING (step_id)
)
SELECT
    rank,
    phase,
    CAST(
        CASE
            WHEN rows_run <= 2 THEN rows_run
            WHEN rows_run <= 4 THEN 4
            WHEN rows_run <= 256 THEN 8 * CEIL(rows_run / 8)
            ELSE 2 ** CEIL(LOG2(rows_run))
        END AS BIGINT
    ) AS rows_to,
    role,
    COUNT(*) AS steps,
    CAST(SUM(kernels) AS BIGINT) AS kernels,
    CAST(SUM(ns) AS BIGINT) AS total_ns,
    CAST(SUM(wait_ns) AS BIGINT) AS wait_ns,
    CAST(quantile_disc(ns, 0.5) AS BIGINT) AS median_ns,
    CAST(MIN(ns) AS BIGINT) AS least_ns
FROM sized
GROUP BY ALL
ORDER BY ALL
