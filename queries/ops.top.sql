-- One row per CPU operator name, by the GPU time that the operator launched itself, without waiting, and then by host time.
--
-- Use it to see which PyTorch operators are behind the GPU time. An operator launched a kernel
-- itself if no operator inside it did (same "External id"). total_gpu_ns counts, for each call,
-- everything launched on its thread while it ran; if an operator calls one of the same name, both
-- count. What was launched outside any operator is in rows named after the call that launched it,
-- in parentheses: (cudaGraphLaunch) is what CUDA graphs replayed. Waiting for a late rank is a column
-- of its own. In a trace without GPU activity, the order is that of host_ns.
-- @param  limit         INTEGER = 20    Maximum number of rows.
-- @param  rank          BIGINT  = NULL  Only this rank; all ranks by default.
-- @column name          VARCHAR  Operator; the call in parentheses for GPU activities that no operator launched.
-- @column calls         BIGINT   Number of calls.
-- @column kernels       BIGINT   GPU activities that it launched itself.
-- @column work_ns       BIGINT   Total duration of the GPU activities that it launched itself, without known wait time, ns.
-- @column wait_ns       BIGINT   Time that its collectives waited for a late rank, ns; NULL if they were not matched, so that work_ns may contain waiting.
-- @column share_pct     DOUBLE   work_ns in percent of that of all GPU activities.
-- @column gpu_ns        BIGINT   Total duration of the GPU activities that it launched itself, ns: work_ns and wait_ns.
-- @column total_gpu_ns  BIGINT   Total duration of all GPU activities launched while it ran, ns.
-- @column host_ns       BIGINT   Total duration of its calls on the host, including operators inside it, ns.
-- @key    name work_ns wait_ns share_pct total_gpu_ns host_ns calls kernels
-- @empty  the trace has no CPU operators and no GPU activity
-- @chart  stacked x=work_ns,wait_ns y=name
-- @title  GPU time by launching operator
WITH operator AS (
    SELECT slice.*
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'operator'
        AND ($rank::BIGINT IS NULL OR slice.rank = $rank::BIGINT)
),
-- Numbers in the order of the names stand for them, because there are millions of operators.
op_name AS MATERIALIZED (
    SELECT name, ROW_NUMBER() OVER (ORDER BY name) AS name_id FROM (SELECT DISTINCT name FROM operator)
),
op AS MATERIALIZED (
    SELECT
        operator.id, operator.rank, operator.external_id, op_name.name_id,
        GREATEST(operator.dur, 0) AS dur  -- files may have negative durations
    FROM operator
    INNER JOIN op_name ON operator.name IS NOT DISTINCT FROM op_name.name
),
by_launch AS (
    SELECT
        kernel.rank, kernel.launch_id, slice.external_id,
        COUNT(*) AS kernels,
        CAST(SUM(kernel.dur) AS BIGINT) AS dur,
        SUM(role_call.wait_ns) AS wait_ns,
        SUM(kernel.dur - COALESCE(role_call.wait_ns, 0)) AS work_ns
    FROM kernel
    INNER JOIN slice USING (id)
    INNER JOIN role_call ON kernel.id = role_call.kernel_id
    WHERE $rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT
    GROUP BY kernel.rank, kernel.launch_id, slice.external_id
),
launched AS (
    SELECT
        by_launch.rank,
        on_host.name AS call,
        by_launch.kernels, by_launch.dur, by_launch.wait_ns, by_launch.work_ns,
        COALESCE(by_launch.external_id, on_host.external_id) AS external_id
    FROM by_launch
    LEFT JOIN slice AS on_host ON by_launch.launch_id = on_host.id
),
op_of_id AS (
    SELECT rank, external_id, MIN(name_id) AS name_id
    FROM op
    SEMI JOIN launched USING (rank, external_id)
    GROUP BY rank, external_id
),
own AS (
    SELECT
        COALESCE(op_name.name, '(' || COALESCE(launched.call, 'launch not recorded') || ')') AS name,
        SUM(launched.kernels) AS kernels,
        SUM(launched.dur) AS gpu_ns,
        SUM(launched.wait_ns) AS wait_ns,
        SUM(launched.work_ns) AS work_ns
    FROM launched
    LEFT JOIN op_of_id USING (rank, external_id)
    LEFT JOIN op_name ON op_of_id.name_id = op_name.name_id
    GROUP BY ALL
),
during AS (
    SELECT op.name_id, SUM(operator_gpu_time.total_gpu_ns) AS total_gpu_ns
    FROM op
    INNER JOIN operator_gpu_time USING (id)
    GROUP BY op.name_id
),
called AS (
    SELECT name_id, COUNT(*) AS calls, SUM(dur) AS host_ns FROM op GROUP BY name_id
),
inclusive AS (
    SELECT op_name.name, called.calls, called.host_ns, COALESCE(during.total_gpu_ns, 0) AS total_gpu_ns
    FROM called
    INNER JOIN op_name USING (name_id)
    LEFT JOIN during USING (name_id)
)
SELECT
    COALESCE(own.name, inclusive.name) AS name,
    COALESCE(inclusive.calls, 0) AS calls,
    CAST(COALESCE(own.kernels, 0) AS BIGINT) AS kernels,
    CAST(COALESCE(own.work_ns, 0) AS BIGINT) AS work_ns,
    CAST(CASE WHEN own.name IS NULL THEN 0 ELSE own.wait_ns END AS BIGINT) AS wait_ns,
    100.0 * COALESCE(own.work_ns, 0) / NULLIF(SUM(own.work_ns) OVER (), 0) AS share_pct,
    CAST(COALESCE(own.gpu_ns, 0) AS BIGINT) AS gpu_ns,
    CAST(COALESCE(inclusive.total_gpu_ns, own.gpu_ns) AS BIGINT) AS total_gpu_ns,
    CAST(COALESCE(inclusive.host_ns, 0) AS BIGINT) AS host_ns
FROM own
FULL JOIN inclusive ON own.name = inclusive.name
ORDER BY work_ns DESC, total_gpu_ns DESC, host_ns DESC, name
LIMIT $limit::INTEGER
