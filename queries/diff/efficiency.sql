-- One row per phase and role: the share of its ceiling that it reaches on both sides.
--
-- Use it where the two sides have other batches or other GPUs, whose times do not compare: each is
-- measured against what its own hardware needs for its own work. Reads the first database of each side,
-- and all of its steps. The ceiling is that of data sheets, as in efficiency.roles.
-- @param  phase        VARCHAR = NULL  Only this phase; all by default.
-- @values phase        prefill decode mixed idle
-- @column phase        VARCHAR  Phase of the steps; NULL if unknown.
-- @column role         VARCHAR  Part of the model.
-- @column base_pct     DOUBLE   Floor of its work in percent of its time in base, 100 at the ceiling; NULL if the floor is unknown.
-- @column new_pct      DOUBLE   The same of new, percent.
-- @column base_ns      DOUBLE   Its time in a step of base, ns.
-- @column new_ns       DOUBLE   The same of new, ns.
-- @column base_per_token_ns  DOUBLE  Its time per token that base's steps processed, ns; NULL if tokens are unknown.
-- @column new_per_token_ns   DOUBLE  The same of new, ns.
-- @column base_bound   VARCHAR  What bounds it in base: memory, compute, link or kernels.
-- @column new_bound    VARCHAR  The same of new.
-- @reads  base new
-- @key    phase role base_pct new_pct base_ns new_ns base_per_token_ns new_per_token_ns
-- @empty  no step has kernels, or none is of the phase
-- @chart  dumbbell x=base_pct,new_pct y=phase,role
-- @title  Share of the ceiling, base against new
WITH own AS (
    SELECT 'base' AS side, step.phase, role_time.role, role_time.work_ns, role_time.floor_ns, role_time.bound
    FROM base.role_time
    INNER JOIN base.step USING (step_id)
    WHERE role_time.kind = 'data sheet'
    UNION ALL
    SELECT 'new', step.phase, role_time.role, role_time.work_ns, role_time.floor_ns, role_time.bound
    FROM new.role_time
    INNER JOIN new.step USING (step_id)
    WHERE role_time.kind = 'data sheet'
),
phase_size AS (
    SELECT 'base' AS side, phase, COUNT(*) AS steps, SUM(context_tokens + generation_tokens) AS tokens
    FROM base.step
    WHERE gpu_dur IS NOT NULL
    GROUP BY phase
    UNION ALL
    SELECT 'new', phase, COUNT(*), SUM(context_tokens + generation_tokens)
    FROM new.step
    WHERE gpu_dur IS NOT NULL
    GROUP BY phase
),
summed AS (
    SELECT
        own.side, own.phase, own.role,
        SUM(own.work_ns) AS work_ns,
        100.0 * NULLIF(SUM(own.floor_ns ORDER BY own.floor_ns), 0)
        / NULLIF(SUM(own.work_ns) FILTER (own.floor_ns IS NOT NULL), 0) AS ceiling_pct,
        COALESCE(
            arg_max(own.bound, own.work_ns) FILTER (own.bound <> 'kernels'),
            CASE WHEN BOOL_OR(own.bound = 'kernels') THEN 'kernels' END
        ) AS bound
    FROM own
    WHERE $phase::VARCHAR IS NULL OR own.phase = $phase::VARCHAR
    GROUP BY own.side, own.phase, own.role
),
sized AS (
    SELECT
        summed.*,
        summed.work_ns / phase_size.steps AS step_ns,
        summed.work_ns / NULLIF(phase_size.tokens, 0) AS token_ns
    FROM summed
    INNER JOIN phase_size
        ON summed.side = phase_size.side AND summed.phase IS NOT DISTINCT FROM phase_size.phase
)
SELECT
    COALESCE(before.phase, after.phase) AS phase,
    COALESCE(before.role, after.role) AS role,
    before.ceiling_pct AS base_pct,
    after.ceiling_pct AS new_pct,
    before.step_ns AS base_ns,
    after.step_ns AS new_ns,
    before.token_ns AS base_per_token_ns,
    after.token_ns AS new_per_token_ns,
    before.bound AS base_bound,
    after.bound AS new_bound
FROM (FROM sized WHERE side = 'base') AS before
FULL JOIN (FROM sized WHERE side = 'new') AS after
    ON before.phase IS NOT DISTINCT FROM after.phase AND before.role IS NOT DISTINCT FROM after.role
ORDER BY phase, GREATEST(COALESCE(base_ns, 0), COALESCE(new_ns, 0)) DESC, role
