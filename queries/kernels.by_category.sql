-- One row per category of kernels, by GPU time without waiting.
--
-- Use it to see which kind of work takes the GPU time. Durations are summed across streams and
-- ranks, so the total may exceed wall time. Waiting for a late rank is a column of its own.
-- @param  rank       BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase      VARCHAR = NULL  Only steps of this phase; all by default.
-- @param  step       BIGINT  = NULL  Only this step (step_id, as steps.timeline lists it).
-- @values phase      prefill decode mixed idle
-- @column category   VARCHAR  Kernel category: gemm, attention, collective ...
-- @column work_ns    BIGINT   Total duration without known wait time, ns.
-- @column wait_ns    BIGINT   Time that collectives waited for a late rank, ns; NULL if they were not matched, so that work_ns may contain waiting.
-- @column share_pct  DOUBLE   work_ns in percent of that of all kernels that pass the filters.
-- @column calls      BIGINT   Number of executions.
-- @column mean_ns    DOUBLE   work_ns per execution, ns.
-- @column kernels    BIGINT   Number of kernel names.
-- @column total_ns   BIGINT   Total duration, ns: work_ns and wait_ns.
-- @key    category work_ns wait_ns share_pct calls mean_ns
-- @empty  no kernel passes the filters, or the trace has no GPU activity
-- @chart  stacked x=work_ns,wait_ns y=category
-- @title  GPU time by category
WITH summed AS (
    SELECT
        kernel.category,
        COUNT(DISTINCT kernel.name) AS kernels,
        COUNT(*) AS calls,
        SUM(kernel.dur) AS total_ns,
        SUM(role_call.wait_ns) AS wait_ns,
        SUM(kernel.dur - COALESCE(role_call.wait_ns, 0)) AS work_ns
    FROM kernel
    INNER JOIN role_call ON kernel.id = role_call.kernel_id
    LEFT JOIN step USING (step_id)
    WHERE
        ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
        AND ($step::BIGINT IS NULL OR kernel.step_id = $step::BIGINT)
    GROUP BY kernel.category
)
SELECT
    category,
    CAST(work_ns AS BIGINT) AS work_ns,
    CAST(wait_ns AS BIGINT) AS wait_ns,
    100.0 * work_ns / NULLIF(SUM(work_ns) OVER (), 0) AS share_pct,
    calls,
    1.0 * work_ns / calls AS mean_ns,
    kernels,
    CAST(total_ns AS BIGINT) AS total_ns
FROM summed
ORDER BY work_ns DESC, category
