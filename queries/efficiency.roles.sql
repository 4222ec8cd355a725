-- One row per phase and role: how close its kernels come to what the GPU can do, and what could be gained.
--
-- Use it to find the parts of the model that are worth optimizing: a role at 85% of its ceiling has
-- nothing to gain, one at 50% has half its time. The ceiling is the longer of two times: useful FLOPs
-- at the peak of the matrix units, and compulsory bytes (weights, KV cache) at that of the memory; of
-- communication, the bytes at the peak of the link. Percentages of the data sheet and of measured ceilings
-- (traceql experiment peaks) are columns of their own. Waiting for a late rank is left out.
-- @param  rank             BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase            VARCHAR = NULL  Only this phase; all by default.
-- @param  step             BIGINT  = NULL  Only this step (step_id, as steps.timeline lists it).
-- @param  role             VARCHAR = NULL  Only this role, such as o_proj.
-- @values phase            prefill decode mixed idle
-- @column phase            VARCHAR  Phase of the steps.
-- @column role             VARCHAR  Part of the model.
-- @column bound            VARCHAR  What limits it: compute (matrix units), memory, link, or kernels (next to no work: only fewer kernels help); NULL if its cost is unknown.
-- @column work_ns          BIGINT   Time of its kernels without known wait time, summed over steps and ranks, ns.
-- @column lost_ns          DOUBLE   What is beyond the ceiling of the data sheet, padding and the fixed cost of small kernels: the time to gain, ns; NULL if unknown.
-- @column ceiling_pct      DOUBLE   Time at the peaks of the data sheet in percent of work_ns; NULL without compulsory work, or if unknown.
-- @column measured_pct     DOUBLE   Time at measured peaks in percent of work_ns, of communication that of an operation of the same size measured alone, at most 100. Short products may exceed 100 by 5, because the power limit slows longer ones. NULL without compulsory work, or if none were measured.
-- @column achieved_tflops  DOUBLE   Useful FLOPs / work_ns, 1e12 per second; NULL without any, or if unknown.
-- @column achieved_gbps    DOUBLE   Compulsory bytes / work_ns, 1e9 per second; of communication, bytes sent. NULL without any, or if unknown.
-- @column lost_step_ns     DOUBLE   lost_ns per step on one rank, ns.
-- @column floor_ns         DOUBLE   Least time at the peaks of the data sheet, ns; NULL if unknown.
-- @column padding_ns       DOUBLE   Least time for padded rows, ns; NULL if unknown.
-- @column small_ns         DOUBLE   What its kernels take beyond that even if they have nothing to do, and of communication the latency of its operations, ns; NULL if unknown.
-- @column steps            BIGINT   Steps of the phase that have the role, counted on each rank.
-- @column missing          VARCHAR  What is missing to know its cost, in some or all of the steps; NULL if nothing is.
-- @key    phase role bound work_ns lost_ns ceiling_pct measured_pct achieved_tflops achieved_gbps
-- @empty  no kernel has a role and a step, or none passes the filters; traceql check says why
-- @chart  bar x=lost_ns y=role color=phase
-- @title  Time below the roofline by role
WITH chosen AS (
    SELECT step_id, phase
    FROM step
    WHERE
        ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR phase = $phase::VARCHAR)
        AND ($step::BIGINT IS NULL OR step_id = $step::BIGINT)
),
timed AS (
    SELECT
        chosen.phase, role_time.role,
        SUM(role_time.work_ns) FILTER (role_time.kind = 'data sheet') AS work_ns,
        SUM(role_time.work_ns) FILTER (role_time.kind = 'data sheet' AND role_time.floor_ns IS NOT NULL) AS known_ns,
        SUM(role_time.work_ns) FILTER (role_time.kind = 'measured' AND role_time.floor_ns IS NOT NULL) AS measured_known_ns,
        SUM(role_time.floor_ns ORDER BY role_time.floor_ns) FILTER (role_time.kind = 'measured') AS measured_floor_ns,
        SUM(role_time.floor_ns ORDER BY role_time.floor_ns) FILTER (role_time.kind = 'data sheet') AS floor_ns,
        SUM(role_time.padding_ns ORDER BY role_time.padding_ns) FILTER (role_time.kind = 'data sheet') AS padding_ns,
        SUM(role_time.small_ns ORDER BY role_time.small_ns) FILTER (role_time.kind = 'data sheet') AS small_ns,
        SUM(role_time.lost_ns ORDER BY role_time.lost_ns) FILTER (role_time.kind = 'data sheet') AS lost_ns,
        SUM(role_time.flops) FILTER (role_time.kind = 'data sheet') AS flops,
        SUM(role_time.bytes) FILTER (role_time.kind = 'data sheet') AS bytes,
        arg_max(role_time.bound, role_time.work_ns) FILTER (role_time.kind = 'data sheet' AND role_time.bound <> 'kernels') AS bound,
        BOOL_OR(role_time.bound = 'kernels') AS is_small,
        COUNT(DISTINCT role_time.step_id) AS steps,
        string_agg(DISTINCT role_time.missing, '; ' ORDER BY role_time.missing) FILTER (role_time.kind = 'data sheet') AS missing
    FROM role_time
    INNER JOIN chosen USING (step_id)
    WHERE $role::VARCHAR IS NULL OR role_time.role = $role::VARCHAR
    GROUP BY chosen.phase, role_time.role
)
SELECT
    phase, role,
    COALESCE(bound, CASE WHEN is_small THEN 'kernels' END) AS bound,
    CAST(work_ns AS BIGINT) AS work_ns,
    lost_ns,
    100 * NULLIF(floor_ns, 0) / NULLIF(known_ns, 0) AS ceiling_pct,
    100 * NULLIF(measured_floor_ns, 0) / NULLIF(measured_known_ns, 0) AS measured_pct,
    NULLIF(flops, 0) / NULLIF(known_ns, 0) / 1000 AS achieved_tflops,
    NULLIF(bytes, 0) / NULLIF(known_ns, 0) AS achieved_gbps,
    lost_ns / steps AS lost_step_ns,
    floor_ns, padding_ns, small_ns, steps, missing
FROM timed
ORDER BY phase, lost_ns DESC NULLS LAST, work_ns DESC, role
