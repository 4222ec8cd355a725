-- One row per category of kernels, by total GPU time.
--
-- Use it to see which kind of work takes the GPU time. Durations are summed across streams and
-- ranks, so the total may exceed wall time.
-- @param  rank       BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase      VARCHAR = NULL  Only steps of this phase; all by default.
-- @values phase      prefill decode mixed idle
-- @column category   VARCHAR  Kernel category: gemm, attention, collective ...
-- @column kernels    BIGINT   Number of different kernel names.
-- @column calls      BIGINT   Number of executions.
-- @column total_ns   BIGINT   Total duration, ns.
-- @column share_pct  DOUBLE   Percent of the total duration of all kernels that pass the filters.
-- @column mean_ns    DOUBLE   Mean duration, ns.
-- @empty  no kernel passes the filters, or the trace has no GPU activity
-- @chart  bar x=total_ns y=category color=category
-- @title  GPU time by category
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
