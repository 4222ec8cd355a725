-- Matrix products or attention of a phase run further from their ceiling than the best of them.
-- @title      below the roofline
-- @notable    2
-- @severe     15
-- @unit       % of the run
-- @threshold  least_share = 0.02  Share of the phase's product time from which a role is compared.
-- @evidence   efficiency.roles phase=phase
-- @advice     Compare the kernels of the role (efficiency.kernels): another GEMM or attention backend, tuned configurations, or another split of the tensors may choose better ones.
-- @source     own: the best product of the same run shows what its kernels and clocks can reach
-- @needs      finding_rule, role_time, run_window, step, wording
WITH timed AS (
    SELECT
        step.phase, role_time.role,
        COUNT(DISTINCT step.step_id) AS steps,
        SUM(role_time.work_ns) AS work_ns,
        -- In order: else the last digits would depend on threads.
        100 * SUM(role_time.floor_ns ORDER BY role_time.floor_ns) / SUM(role_time.work_ns) AS ceiling_pct
    FROM role_time
    INNER JOIN step USING (step_id)
    WHERE role_time.kind = 'data sheet' AND role_time.flops > 0
    GROUP BY step.phase, role_time.role
    -- Otherwise its kernels are short because there is little to do.
    HAVING SUM(role_time.floor_ns) > SUM(role_time.small_ns)
),
shared AS (
    SELECT *, work_ns / SUM(work_ns) OVER (PARTITION BY phase) AS share FROM timed
),
compared AS (
    SELECT
        *,
        MAX(ceiling_pct) OVER in_phase AS best_pct,
        arg_max(role, ceiling_pct) OVER in_phase AS best_role,
        work_ns * (1 - ceiling_pct / MAX(ceiling_pct) OVER in_phase) AS lost_ns
    FROM shared
    WHERE share >= (SELECT thresholds['least_share'] FROM finding_rule WHERE finding = 'below the roofline')
    WINDOW in_phase AS (PARTITION BY phase)
),
-- The three that lose most: the sentence and the saving are about these.
losing AS (
    SELECT *
    FROM compared
    WHERE phase IS NOT NULL AND best_pct <= 100 AND lost_ns > 0
    QUALIFY row_number() OVER (PARTITION BY phase ORDER BY lost_ns DESC, role) <= 3
),
summed AS (
    SELECT
        phase,
        ANY_VALUE(best_role) AS best_role,
        ANY_VALUE(best_pct) AS best_pct,
        SUM(lost_ns ORDER BY lost_ns) AS lost_ns,
        MAX(steps) AS steps,
        string_agg(role, ', ' ORDER BY lost_ns DESC, role) AS losers,
        string_agg(format('{:.0f}%', ceiling_pct), ', ' ORDER BY lost_ns DESC, role) AS reached
    FROM losing
    GROUP BY phase
)
SELECT
    100.0 * summed.lost_ns / run_window.ranks / NULLIF(run_window.ns, 0) AS value,
    CAST(summed.lost_ns AS BIGINT) AS cost_ns,
    CAST(summed.lost_ns / run_window.ranks AS BIGINT) AS saving_ns,
    format('if these parts came as close to the ceiling as {}', summed.best_role) AS assumption,
    format(
        '{}: {} reach {} of what the {} can do for them and lose {:.2f} ms a step against {}, which reaches {:.0f}%.',
        upper(summed.phase[1]) || summed.phase[2:], summed.losers,
        summed.reached, wording.device, summed.lost_ns / summed.steps / 1e6, summed.best_role, summed.best_pct
    ) AS finding,
    summed.phase
FROM summed
CROSS JOIN run_window
CROSS JOIN wording
