-- One row per kernel name, by total GPU time.
--
-- Use it to find the kernels worth optimizing. Durations are summed across streams and ranks, so
-- the total may exceed wall time.
-- @param  limit      INTEGER = 20    Maximum number of rows.
-- @param  rank       BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase      VARCHAR = NULL  Only steps of this phase; all by default.
-- @param  category   VARCHAR = NULL  Only kernels of this category; all by default.
-- @values phase      prefill decode mixed idle
-- @values category   gemm attention kv_cache norm rope activation moe collective elementwise sampling input_prep memcpy memset other
-- @column name       VARCHAR  Kernel name.
-- @column category   VARCHAR  Kernel category: gemm, attention, collective ...
-- @column calls      BIGINT   Number of executions.
-- @column total_ns   BIGINT   Summed duration, ns.
-- @column share_pct  DOUBLE   Percent of the total duration of all kernels that pass the filters.
-- @column mean_ns    DOUBLE   Mean duration, ns.
-- @column p50_ns     DOUBLE   Median duration, ns.
-- @column p99_ns     DOUBLE   99th percentile of the duration, ns.
-- @column max_ns     BIGINT   Longest duration, ns.
-- @empty  no kernel passes the filters, or the trace has no GPU activity
-- @chart  bar x=total_ns y=name color=category
-- @title  GPU time by kernel
WITH chosen AS (
    SELECT kernel.name, kernel.category, kernel.dur
    FROM kernel
    LEFT JOIN step USING (step_id)
    WHERE
        ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
        AND ($category::VARCHAR IS NULL OR kernel.category = $category::VARCHAR)
)
SELECT
    name,
    category,
    COUNT(*) AS calls,
    CAST(SUM(dur) AS BIGINT) AS total_ns,
    100.0 * SUM(dur) / NULLIF(SUM(SUM(dur)) OVER (), 0) AS share_pct,
    AVG(dur) AS mean_ns,
    quantile_cont(dur, 0.5) AS p50_ns,
    quantile_cont(dur, 0.99) AS p99_ns,
    MAX(dur) AS max_ns
FROM chosen
GROUP BY name, category
ORDER BY total_ns DESC, name
LIMIT $limit::INTEGER
