-- One row per kernel name, by GPU time without waiting.
--
-- Use it to find the kernels worth optimizing. Durations are summed across streams and ranks, so
-- the total may exceed wall time. Waiting for a late rank is a column of its own: a faster kernel
-- would not shorten it.
-- @param  limit      INTEGER = 20    Maximum number of rows.
-- @param  rank       BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase      VARCHAR = NULL  Only steps of this phase; all by default.
-- @param  step       BIGINT  = NULL  Only this step (step_id, as steps.timeline lists it).
-- @param  role       VARCHAR = NULL  Only kernels of this role, such as qkv_proj.
-- @param  category   VARCHAR = NULL  Only kernels of this category; all by default.
-- @param  name       VARCHAR = NULL  Only kernels whose name this regular expression matches somewhere, in upper or lower case.
-- @values phase      prefill decode mixed idle
-- @values category   gemm attention kv_cache norm rope activation moe collective elementwise sampling input_prep memcpy memset graph other
-- @column name       VARCHAR  Kernel name.
-- @column category   VARCHAR  Kernel category: gemm, attention, collective ...
-- @column calls      BIGINT   Number of executions.
-- @column work_ns    BIGINT   Summed duration without known wait time, ns.
-- @column wait_ns    BIGINT   Time it waited for a late rank, ns: 0 unless it is a collective; NULL if it was not matched, so that work_ns may contain waiting.
-- @column share_pct  DOUBLE   work_ns in percent of that of all kernels that pass the filters.
-- @column total_ns   BIGINT   Summed duration, ns: work_ns and wait_ns.
-- @column mean_ns    DOUBLE   Mean duration, ns.
-- @column p50_ns     DOUBLE   Median duration, ns.
-- @column p99_ns     DOUBLE   99th percentile of the duration, ns.
-- @column max_ns     BIGINT   Longest duration, ns.
-- @key    name work_ns wait_ns share_pct calls category mean_ns
-- @empty  no kernel passes the filters, or the trace has no GPU activity
-- @chart  bar x=work_ns y=name color=category
-- @title  GPU time by kernel
WITH chosen AS (
    SELECT kernel.name, kernel.category, kernel.dur, role_call.wait_ns
    FROM kernel
    INNER JOIN role_call ON kernel.id = role_call.kernel_id
    LEFT JOIN step USING (step_id)
    WHERE
        ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
        AND ($step::BIGINT IS NULL OR kernel.step_id = $step::BIGINT)
        AND ($role::VARCHAR IS NULL OR kernel.role = $role::VARCHAR)
        AND ($category::VARCHAR IS NULL OR kernel.category = $category::VARCHAR)
        AND ($name::VARCHAR IS NULL OR regexp_matches(kernel.name, $name::VARCHAR, 'i'))
),
summed AS (
    SELECT
        name, category,
        COUNT(*) AS calls,
        SUM(dur) AS total_ns,
        SUM(wait_ns) AS wait_ns,
        SUM(dur - COALESCE(wait_ns, 0)) AS work_ns,
        AVG(dur) AS mean_ns,
        quantile_cont(dur, 0.5) AS p50_ns,
        quantile_cont(dur, 0.99) AS p99_ns,
        MAX(dur) AS max_ns
    FROM chosen
    GROUP BY name, category
)
SELECT
    name, category, calls,
    CAST(work_ns AS BIGINT) AS work_ns,
    CAST(wait_ns AS BIGINT) AS wait_ns,
    100.0 * work_ns / NULLIF(SUM(work_ns) OVER (), 0) AS share_pct,
    CAST(total_ns AS BIGINT) AS total_ns,
    mean_ns, p50_ns, p99_ns, max_ns
FROM summed
ORDER BY work_ns DESC, name
LIMIT $limit::INTEGER
