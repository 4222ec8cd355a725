-- One row per rank, phase, kernel name, place in the model and grid: how often it ran and for how long.
--
-- Copies, memory sets and communication are left out.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, step
-- @column rank       BIGINT     Rank.
-- @column phase      VARCHAR    Phase of its steps (step.phase); NULL if unknown.
-- @column name       VARCHAR    Name of the kernel.
-- @column category   VARCHAR    Category of the kernel.
-- @column symbol     VARCHAR    Symbol of the kernel.
-- @column role       VARCHAR    Part of the model; NULL if unknown.
-- @column grid       INTEGER[]  Blocks in x, y and z.
-- @column kernels    BIGINT     How many ran.
-- @column ns         HUGEINT    Sum of their durations, ns.
-- @column median_ns  DOUBLE     Median duration, ns.
SELECT
    kernel.rank, step.phase, kernel.name, kernel.category, kernel.symbol, kernel.role, kernel.grid,
    COUNT(*) AS kernels,
    SUM(kernel.dur) AS ns,
    MEDIAN(kernel.dur) AS median_ns
FROM kernel
LEFT JOIN step USING (step_id)
WHERE kernel.dur IS NOT NULL AND kernel.category NOT IN ('collective', 'memcpy', 'memset', 'graph')
GROUP BY ALL
