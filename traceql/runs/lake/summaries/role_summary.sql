-- One row per rank, phase, size of the batch and role: how long the role's kernels take in a step.
--
-- Time in which collectives waited for another rank is separate: no kernel causes it.
-- @column rank       BIGINT   Rank.
-- @column phase      VARCHAR  Phase of the steps; unknown if they have none.
-- @column rows_to    BIGINT   Rows that the kernels of a step run, rounded up (step_summary.rows_to); NULL if unknown.
-- @column role       VARCHAR  Part of the model; other if unknown.
-- @column is_comm    BOOLEAN  Whether it has communication kernels.
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
        kernel.category = 'collective' AS is_comm,
        kernel.dur,
        COALESCE(collective.wait_ns, 0) AS wait_ns
    FROM kernel
    LEFT JOIN collective ON kernel.id = collective.kernel_id
    WHERE kernel.step_id IS NOT NULL
),
one_step AS (
    SELECT
        step_id, role,
        COUNT(*) AS kernels,
        SUM(dur - wait_ns) AS ns,
        SUM(wait_ns) AS wait_ns,
        BOOL_OR(is_comm) AS is_comm
    FROM one_kernel
    GROUP BY step_id, role
),
sized AS (
    SELECT step_summary.rank, step_summary.phase, step_summary.rows_to, one_step.*
    FROM one_step
    INNER JOIN step_summary USING (step_id)
)
SELECT
    rank, phase, rows_to, role,
    BOOL_OR(is_comm) AS is_comm,
    COUNT(*) AS steps,
    CAST(SUM(kernels) AS BIGINT) AS kernels,
    CAST(SUM(ns) AS BIGINT) AS total_ns,
    CAST(SUM(wait_ns) AS BIGINT) AS wait_ns,
    CAST(quantile_disc(ns, 0.5) AS BIGINT) AS median_ns,
    CAST(MIN(ns) AS BIGINT) AS least_ns
FROM sized
GROUP BY rank, phase, rows_to, role
ORDER BY rank, phase, rows_to, role
