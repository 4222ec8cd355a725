-- One row per layer and role of one phase: how close the role comes to the ceiling in this layer.
--
-- Use it to see whether a part of the model is slow in all layers or in some: layers of one kind do
-- the same work, so that a layer that stands out ran other kernels or at another clock. The ceiling is
-- as in efficiency.roles. Cells without compulsory work, or of unknown cost, have no percentage.
-- @param  phase        VARCHAR = NULL          Phase of the steps; by default, that with the most steps.
-- @param  rank         BIGINT  = NULL          Only this rank; all ranks by default.
-- @param  kind         VARCHAR = 'data sheet'  Whose ceilings: those of data sheets, or measured ones (traceql experiment peaks).
-- @values phase        prefill decode mixed idle
-- @values kind         'data sheet' measured
-- @column phase        VARCHAR  Phase of the steps.
-- @column layer        BIGINT   Model layer.
-- @column role         VARCHAR  Part of the model, in the order in which a layer runs them.
-- @column ceiling_pct  DOUBLE   Time at the ceiling in percent of its time; NULL without compulsory work, or if unknown.
-- @column lost_ns      DOUBLE   Time below the roofline per step and rank, ns; NULL if unknown.
-- @column work_ns      DOUBLE   Time of its kernels without known wait time per step and rank, ns.
-- @column steps        BIGINT   Steps that have the role in this layer, counted on each rank.
-- @key    phase layer role ceiling_pct lost_ns work_ns
-- @empty  no layers were recognized (traceql check), no step has this phase, or nothing was measured for --kind measured
-- @chart  heatmap x=layer y=role color=ceiling_pct
-- @title  Share of the ceiling by layer and role
WITH chosen AS (
    SELECT step_id, phase
    FROM step
    WHERE
        gpu_dur IS NOT NULL
        AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
        AND phase = COALESCE($phase::VARCHAR, (SELECT mode(phase ORDER BY phase) FROM step WHERE gpu_dur IS NOT NULL))
),
begun AS (
    SELECT role, MEDIAN(place) AS place
    FROM (
        SELECT
            kernel.role,
            kernel.ts - MIN(kernel.ts) OVER (PARTITION BY kernel.step_id, kernel.layer) AS place
        FROM kernel
        INNER JOIN chosen USING (step_id)
        WHERE kernel.layer IS NOT NULL
        -- A few steps tell the order as well as all.
        QUALIFY dense_rank() OVER (ORDER BY kernel.step_id) <= 4
    )
    GROUP BY role
),
timed AS (
    SELECT
        chosen.phase, role_time.layer, role_time.role,
        100 * NULLIF(SUM(role_time.floor_ns), 0)
        / NULLIF(SUM(role_time.work_ns) FILTER (role_time.floor_ns IS NOT NULL), 0) AS ceiling_pct,
        SUM(role_time.lost_ns) / COUNT(DISTINCT role_time.step_id) AS lost_ns,
        1.0 * SUM(role_time.work_ns) / COUNT(DISTINCT role_time.step_id) AS work_ns,
        COUNT(DISTINCT role_time.step_id) AS steps
    FROM role_time
    INNER JOIN chosen USING (step_id)
    WHERE role_time.layer IS NOT NULL AND role_time.kind = $kind::VARCHAR
    GROUP BY chosen.phase, role_time.layer, role_time.role
)
SELECT timed.*
FROM timed
LEFT JOIN begun USING (role)
ORDER BY begun.place, timed.role, timed.layer
