-- One row per category, by total GPU time.
--
-- Durations are summed over streams and ranks; the sum may exceed wall time.
-- @param  rank       BIGINT  = NULL  This rank only; all where NULL.
-- @param  phase      VARCHAR = NULL  Steps of this phase only; all where NULL.
-- @values phase      prefill decode mixed idle
-- @column category   VARCHAR  What the kernels are.
-- @column kernels    BIGINT   Distinct kernel names.
-- @column calls      BIGINT   How often they ran.
-- @column total_ns   BIGINT   Summed duration, ns.
-- @column share_pct  DOUBLE   Percent of the summed duration of all kernels that pass the filters.
-- @column mean_ns    DOUBLE   Mean duration, ns.
-- @chart  bar x=total_ns y=category color=category
-- @title  GPU time by category of kernel
WITH chosen AS (
    SELECT kernel.name, kernel.category, kernel.dur
    FROM kernel
    LEFT JOIN step USING (step_id)
    WHERE
        ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
)
SELECT
    category,
    COUNT(DISTINCT name) AS kernels,
    COUNT(*) AS calls,
    CAST(SUM(dur) AS BIGINT) AS total_ns,
    100.0 * SUM(dur) / NULLIF(SUM(SUM(dur)) OVER (), 0) AS share_pct,
    AVG(dur) AS mean_ns
FROM chosen
GROUP BY category
ORDER BY total_ns DESC, category
