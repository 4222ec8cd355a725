-- One row per role, main kernel and number of rows that it runs: which kernel the library chose, and how close it comes to its ceiling.
--
-- Use it to compare the kernels that a library chooses for the same product at different batch sizes.
-- The main kernel of a role is the longest one in a layer; others that belong to it (split-K
-- reductions, memory sets) count in the time. The ceiling is as in efficiency.roles.
-- @param  limit            BIGINT  = 20            Rows to return.
-- @param  role             VARCHAR = NULL          Only this role, such as o_proj.
-- @param  phase            VARCHAR = NULL          Only this phase; all by default.
-- @param  rank             BIGINT  = NULL          Only this rank; all ranks by default.
-- @param  kind             VARCHAR = 'data sheet'  Whose ceilings: those of data sheets, or measured ones (traceql experiment peaks).
-- @values phase            prefill decode mixed idle
-- @values kind             'data sheet' measured
-- @column role             VARCHAR  Part of the model.
-- @column kernel           VARCHAR  Name of its main kernel.
-- @column executed_rows    BIGINT   Rows that it runs, padding included: tokens, or rows of logits; NULL if unknown.
-- @column bound            VARCHAR  What limits it: compute, memory, link or kernels; NULL if its cost is unknown.
-- @column lost_ns          DOUBLE   Time below the roofline in all, ns; NULL if unknown.
-- @column ceiling_pct      DOUBLE   Time at the ceiling in percent of work_ns; NULL without compulsory work, or if unknown.
-- @column mean_ns          DOUBLE   Time per layer and step, ns.
-- @column achieved_tflops  DOUBLE   Useful FLOPs / work_ns, 1e12 per second; NULL without any, or if unknown.
-- @column achieved_gbps    DOUBLE   Compulsory bytes / work_ns, 1e9 per second; of communication, bytes sent. NULL without any, or if unknown.
-- @column calls            BIGINT   Layers x steps x ranks that ran it.
-- @column work_ns          BIGINT   Time in all, ns.
-- @key    role kernel executed_rows bound lost_ns ceiling_pct mean_ns
-- @empty  no kernel has a role and a step, or none passes the filters; traceql check says why
-- @chart  bar x=lost_ns y=kernel color=role
-- @title  Time below the roofline by kernel
WITH chosen AS (
    SELECT step_id
    FROM step
    WHERE
        ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR phase = $phase::VARCHAR)
),
main_kernel AS (
    SELECT kernel.step_id, kernel.layer, kernel.role, arg_max(kernel.id, kernel.dur) AS id
    FROM kernel
    INNER JOIN chosen USING (step_id)
    WHERE kernel.role IS NOT NULL AND ($role::VARCHAR IS NULL OR kernel.role = $role::VARCHAR)
    GROUP BY kernel.step_id, kernel.layer, kernel.role
),
called AS (
    SELECT
        role_time.role, kernel.name,
        CASE
            WHEN role_time.role = 'lm_head' THEN step_tokens.logit_rows
            ELSE COALESCE(step_tokens.executed_tokens, step_tokens.tokens)
        END AS executed_rows,
        role_time.bound, role_time.lost_ns, role_time.floor_ns, role_time.work_ns,
        CASE WHEN role_time.floor_ns IS NOT NULL THEN role_time.work_ns END AS known_ns,
        role_time.flops, role_time.bytes
    FROM role_time
    INNER JOIN main_kernel
        ON role_time.step_id = main_kernel.step_id
        AND role_time.role = main_kernel.role
        AND role_time.layer IS NOT DISTINCT FROM main_kernel.layer
    INNER JOIN kernel ON main_kernel.id = kernel.id
    LEFT JOIN step_tokens ON role_time.step_id = step_tokens.step_id
    WHERE role_time.kind = $kind::VARCHAR
)
SELECT
    role,
    name AS kernel,
    executed_rows,
    mode(bound ORDER BY bound) AS bound,
    SUM(lost_ns ORDER BY lost_ns) AS lost_ns,
    100 * NULLIF(SUM(floor_ns ORDER BY floor_ns), 0) / NULLIF(SUM(known_ns), 0) AS ceiling_pct,
    AVG(work_ns) AS mean_ns,
    NULLIF(SUM(flops), 0) / NULLIF(SUM(known_ns), 0) / 1000 AS achieved_tflops,
    NULLIF(SUM(bytes), 0) / NULLIF(SUM(known_ns), 0) AS achieved_gbps,
    COUNT(*) AS calls,
    CAST(SUM(work_ns) AS BIGINT) AS work_ns
FROM called
GROUP BY role, name, executed_rows
ORDER BY lost_ns DESC NULLS LAST, work_ns DESC, role, kernel, executed_rows
LIMIT CASE WHEN $limit::BIGINT > 0 THEN $limit::BIGINT END
