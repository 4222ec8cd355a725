-- One row per phase, or per step: the least time that the hardware needs for a step, and what is missing to know it.
--
-- Use it to see how far a step is from what the GPU and its links can do, and what bounds it: the
-- memory (reading weights and KV cache), the matrix units, or the links. The floor is the sum over
-- the parts of the model, because kernels run one after the other. It is a lower bound if some
-- kernels' work is unknown: their time is in not_modelled_ns, and missing says why. Per phase, times
-- are those of the average step on one rank. step.waterfall divides above_ns.
-- @param  by                VARCHAR = 'phase'       One row per phase (all its steps on all ranks together), or per step of a rank.
-- @param  phase             VARCHAR = NULL          Only steps of this phase; all by default.
-- @param  step              BIGINT  = NULL          One step only (step_id, as steps.timeline lists it), as if by were step; all by default.
-- @param  rank              BIGINT  = NULL          Only this rank; all ranks by default.
-- @param  kind              VARCHAR = 'data sheet'  Whose ceilings: those of data sheets, or measured ones (traceql experiment peaks).
-- @param  limit             INTEGER = 1000          Maximum number of rows.
-- @values kind              'data sheet' measured
-- @values by                phase step
-- @values phase             prefill decode mixed idle
-- @column phase             VARCHAR  Phase of the steps; NULL if unknown.
-- @column step_id           BIGINT   Step; NULL if by is phase.
-- @column rank              BIGINT   Rank of the step; NULL if by is phase.
-- @column number            BIGINT   Position of the step in its rank, from 0; NULL if by is phase.
-- @column steps             BIGINT   Number of steps, counted on each rank.
-- @column gpu_ns            DOUBLE   GPU span of the step, ns.
-- @column floor_ns          DOUBLE   The least that it needs, ns: the sum of the next three columns; NULL if no part of it is known.
-- @column memory_ns         DOUBLE   Parts of the model for which memory takes longer than matrix units, ns; NULL if there are none.
-- @column compute_ns        DOUBLE   Parts of the model for which matrix units take longer than memory, ns; NULL if there are none.
-- @column link_ns           DOUBLE   Exposed communication at the peak of the links, ns; NULL if there is none, or if it is unknown.
-- @column floor_pct         DOUBLE   floor_ns in percent of gpu_ns.
-- @column above_ns          DOUBLE   GPU span above the floor, without not_modelled_ns, ns.
-- @column not_modelled_ns   DOUBLE   Time of kernels and transfers whose work or peak is unknown, ns: part of it may belong to the floor.
-- @column is_lower_bound    BOOLEAN  Whether some of it is in parts of the model, so that the floor is higher than floor_ns. The preparation of inputs and sampling are not.
-- @column missing           VARCHAR  What is missing to know it, and the parts of the model it is missing for; NULL if it is exact.
-- @key    phase step_id number gpu_ns floor_ns floor_pct not_modelled_ns is_lower_bound missing
-- @empty  no step has kernels, none passes the filters (steps.timeline lists them), or nothing was measured for --kind measured
-- @chart  stacked x=memory_ns,compute_ns,link_ns,above_ns,not_modelled_ns y=number,phase
-- @title  What a step needs at least, and what it takes
WITH chosen AS (
    SELECT
        step_id, phase,
        CASE WHEN $by::VARCHAR = 'step' OR $step::BIGINT IS NOT NULL THEN step_id END AS only_step
    FROM step
    WHERE
        gpu_dur IS NOT NULL
        AND ($phase::VARCHAR IS NULL OR phase = $phase::VARCHAR)
        AND ($step::BIGINT IS NULL OR step_id = $step::BIGINT)
        AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
),
spent AS MATERIALIZED (
    SELECT
        chosen.phase, chosen.only_step, chosen.step_id, waterfall.bar, waterfall.role, waterfall.ns
    FROM waterfall
    INNER JOIN chosen USING (step_id)
    WHERE
        waterfall.kind = $kind::VARCHAR
        AND ($step::BIGINT IS NULL OR waterfall.step_id = $step::BIGINT)  -- so that others are not computed
),
summed AS (
    SELECT
        phase, only_step,
        COUNT(DISTINCT step_id) AS steps,
        SUM(ns) AS gpu_ns,
        SUM(ns) FILTER (bar IN ('floor', 'comm_floor')) AS floor_ns,
        SUM(ns) FILTER (bar = 'comm_floor') AS link_ns,
        COALESCE(SUM(ns) FILTER (bar = 'not_modelled'), 0) AS not_modelled_ns
    FROM spent
    GROUP BY phase, only_step
),
of_role AS MATERIALIZED (
    SELECT
        chosen.phase, chosen.only_step, role_floor.role,
        MIN(role_floor.missing) AS missing,
        SUM(round(role_floor.floor_ns)) FILTER (role_floor.bound = 'compute') AS compute_ns
    FROM role_floor
    INNER JOIN chosen USING (step_id)
    WHERE
        role_floor.kind = $kind::VARCHAR
        AND ($step::BIGINT IS NULL OR role_floor.step_id = $step::BIGINT)
    GROUP BY chosen.phase, chosen.only_step, role_floor.role
),
bound AS (
    SELECT phase, only_step, SUM(compute_ns) AS compute_ns FROM of_role GROUP BY phase, only_step
),
unmodelled AS (
    SELECT phase, only_step, role, SUM(ns) AS ns
    FROM spent
    WHERE bar = 'not_modelled' AND COALESCE(role, 'unknown') NOT IN ('input_prep', 'sample')
    GROUP BY phase, only_step, role
),
unknown AS (
    SELECT
        unmodelled.phase, unmodelled.only_step,
        COALESCE(of_role.missing, 'part of the model') AS what,
        string_agg(COALESCE(unmodelled.role, 'kernels of unknown role'), ', ' ORDER BY unmodelled.ns DESC) AS roles,
        SUM(unmodelled.ns) AS ns
    FROM unmodelled
    LEFT JOIN of_role
        ON unmodelled.phase IS NOT DISTINCT FROM of_role.phase
        AND unmodelled.only_step IS NOT DISTINCT FROM of_role.only_step
        AND unmodelled.role = of_role.role
    GROUP BY unmodelled.phase, unmodelled.only_step, what
),
unmodelled_work AS (
    SELECT phase, only_step, string_agg(format('{}: {}', what, roles), '; ' ORDER BY ns DESC, what) AS missing
    FROM unknown
    GROUP BY phase, only_step
)
SELECT
    summed.phase,
    summed.only_step AS step_id,
    step.rank, step.number, summed.steps,
    1.0 * summed.gpu_ns / summed.steps AS gpu_ns,
    1.0 * summed.floor_ns / summed.steps AS floor_ns,
    1.0 * NULLIF(
        summed.floor_ns - COALESCE(summed.link_ns, 0) - COALESCE(bound.compute_ns, 0), 0
    ) / summed.steps AS memory_ns,
    1.0 * bound.compute_ns / summed.steps AS compute_ns,
    1.0 * summed.link_ns / summed.steps AS link_ns,
    100.0 * summed.floor_ns / NULLIF(summed.gpu_ns, 0) AS floor_pct,
    1.0 * (summed.gpu_ns - COALESCE(summed.floor_ns, 0) - summed.not_modelled_ns) / summed.steps AS above_ns,
    1.0 * summed.not_modelled_ns / summed.steps AS not_modelled_ns,
    unmodelled_work.missing IS NOT NULL AS is_lower_bound,
    unmodelled_work.missing
FROM summed
LEFT JOIN step ON summed.only_step = step.step_id
LEFT JOIN bound
    ON summed.phase IS NOT DISTINCT FROM bound.phase
    AND summed.only_step IS NOT DISTINCT FROM bound.only_step
LEFT JOIN unmodelled_work
    ON summed.phase IS NOT DISTINCT FROM unmodelled_work.phase
    AND summed.only_step IS NOT DISTINCT FROM unmodelled_work.only_step
ORDER BY summed.phase, summed.only_step
LIMIT $limit::INTEGER
