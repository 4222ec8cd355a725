-- One row per step, kind of ceiling, bar, role and cause: what the hardware needs of the step's time, and where the rest went.
--
-- For each kind, the rows of a step add up to step.gpu_dur, to the
-- nanosecond. The floor of a role counts whole, so that what overlaps makes below_roofline smaller;
-- that of communication counts only as far as its transfers are exposed.
-- @schema main
-- @scope  run
-- @needs  aligned_step, collective, kernel, rank_peak, role_floor, step_time
-- @column rank     BIGINT   Rank.
-- @column step_id  BIGINT   Step (step.step_id).
-- @column kind     VARCHAR  data sheet or measured: whose ceilings (rank_peak.kind).
-- @column bar      VARCHAR  floor, padding, small_kernels, below_roofline, not_modelled, comm_floor, comm_above_floor, comm_unmatched, waiting, expert_imbalance, copies, idle or other_step; query step.waterfall explains them.
-- @column role     VARCHAR  Part of the model; NULL if unknown, and in the bars idle and other_step.
-- @column cause    VARCHAR  Why the device was idle (gap.cause); NULL in all other bars.
-- @column ns       BIGINT   Time, ns; may be negative in below_roofline.
WITH
-- Experts are compared with those of the ranks of the communicator that carries the tokens of experts or
-- sums their results.
expert_group AS (
    SELECT
        kernel.rank,
        COALESCE(
            mode(collective.communicator_id) FILTER (kernel.role IN ('dispatch', 'combine')),
            mode(collective.communicator_id)
        ) AS communicator_id
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    WHERE kernel.role IN ('dispatch', 'combine', 'mlp_allreduce')
    GROUP BY kernel.rank
),
expert_time AS (
    SELECT rank, step_id, layer, role, SUM(ns) AS computing_ns
    FROM step_time
    WHERE part = 'computing' AND role IN ('experts_gate_up', 'experts_down')
    GROUP BY rank, step_id, layer, role
),
-- How much longer the experts of a step computed than the mean of these ranks in the same iteration.
expert_excess AS (
    SELECT
        expert_time.step_id, expert_time.layer, expert_time.role,
        expert_time.computing_ns - AVG(expert_time.computing_ns) OVER (
            PARTITION BY expert_group.communicator_id, aligned_step.iteration, expert_time.layer, expert_time.role
        ) AS excess_ns
    FROM expert_time
    INNER JOIN expert_group USING (rank)
    INNER JOIN aligned_step ON expert_time.step_id = aligned_step.step_id
),
placed AS (
    -- One row from each side, where there is one: a role with a floor that is hidden has no time, but
    -- counts; hidden communication does not. (A full join would let no condition through to its sides.)
    SELECT
        rank, step_id, kind, role, layer, cause,
        COALESCE(SUM(ns) FILTER (part = 'computing'), 0) AS computing_ns,
        COALESCE(SUM(ns) FILTER (part = 'exposed_transfer'), 0) AS transfer_ns,
        COALESCE(SUM(ns) FILTER (part = 'exposed_unmatched'), 0) AS unmatched_ns,
        SUM(ns) FILTER (part = 'exposed_wait') AS wait_ns,
        SUM(ns) FILTER (part = 'exposed_copy') AS copy_ns,
        SUM(ns) FILTER (part = 'idle') AS idle_ns,
        SUM(ns) FILTER (part = 'other_step') AS other_ns,
        MAX(floor_ns) IS NOT NULL AND (COUNT(*) FILTER (part = 'computing') > 0 OR MAX(link_ns) IS NULL) AS is_modelled,
        CAST(round(MAX(floor_ns)) AS BIGINT) AS floor_ns,
        CAST(round(MAX(executed_ns)) AS BIGINT) AS executed_ns,
        COALESCE(MAX(small_ns), 0) AS small_ns,
        CAST(round(MAX(link_ns)) AS BIGINT) AS link_ns
    FROM (
        SELECT
            rank_peak.kind, time.rank, time.step_id, time.layer, time.role, time.cause, time.part,
            time.ns
        FROM step_time AS time
        INNER JOIN rank_peak USING (rank)
        UNION ALL BY NAME
        SELECT rank, step_id, kind, layer, role, floor_ns, executed_ns, small_ns, link_ns FROM role_floor
    )
    GROUP BY rank, step_id, kind, layer, role, cause
),
floored AS (
    SELECT
        placed.* EXCLUDE (floor_ns, executed_ns, small_ns),
        GREATEST(CAST(floor(expert_excess.excess_ns) AS BIGINT), 0) AS excess_ns,
        CASE WHEN is_modelled THEN floor_ns ELSE 0 END AS floor_ns,
        CASE WHEN is_modelled THEN executed_ns - floor_ns ELSE 0 END AS padding_ns,
        CASE
            WHEN is_modelled THEN GREATEST(LEAST(computing_ns, small_ns) - executed_ns, 0)
            ELSE 0
        END AS small_ns,
        LEAST(transfer_ns + unmatched_ns, COALESCE(link_ns, 0)) AS link_floor_ns
    FROM placed
    LEFT JOIN expert_excess
        ON placed.step_id = expert_excess.step_id
        AND placed.layer IS NOT DISTINCT FROM expert_excess.layer
        AND placed.role = expert_excess.role
),
divided AS (
    SELECT
        *,
        computing_ns - floor_ns - padding_ns - small_ns AS above_ns,
        LEAST(excess_ns, GREATEST(above_ns, 0)) AS imbalance_ns,
        LEAST(transfer_ns, link_floor_ns) AS matched_floor_ns
    FROM floored
),
-- Layers are added up before a row becomes one for each bar.
summed AS (
    SELECT
        rank, step_id, kind, role, cause, is_modelled,
        link_ns IS NULL AS lacks_link,
        SUM(floor_ns) AS floor_ns,
        SUM(padding_ns) AS padding_ns,
        SUM(small_ns) AS small_ns,
        SUM(above_ns - imbalance_ns) AS above_ns,
        SUM(imbalance_ns) AS imbalance_ns,
        SUM(link_floor_ns) AS link_floor_ns,
        SUM(transfer_ns - matched_floor_ns) AS transfer_ns,
        SUM(unmatched_ns - (link_floor_ns - matched_floor_ns)) AS unmatched_ns,
        SUM(wait_ns) AS wait_ns,
        SUM(copy_ns) AS copy_ns,
        SUM(idle_ns) AS idle_ns,
        SUM(other_ns) AS other_ns
    FROM divided
    GROUP BY rank, step_id, kind, role, cause, is_modelled, lacks_link
),
bar AS (
    SELECT
        rank, step_id, kind, role, cause,
        UNNEST([
            {'bar': 'floor', 'ns': floor_ns},
            {'bar': 'padding', 'ns': padding_ns},
            {'bar': 'small_kernels', 'ns': small_ns},
            {'bar': CASE WHEN is_modelled THEN 'below_roofline' ELSE 'not_modelled' END, 'ns': above_ns},
            {'bar': 'expert_imbalance', 'ns': imbalance_ns},
            {'bar': 'comm_floor', 'ns': link_floor_ns},
            {'bar': CASE WHEN lacks_link THEN 'not_modelled' ELSE 'comm_above_floor' END, 'ns': transfer_ns},
            {'bar': 'comm_unmatched', 'ns': unmatched_ns},
            {'bar': 'waiting', 'ns': wait_ns},
            {'bar': 'copies', 'ns': copy_ns},
            {'bar': 'idle', 'ns': idle_ns},
            {'bar': 'other_step', 'ns': other_ns}
        ], recursive := TRUE)
    FROM summed
)
SELECT rank, step_id, kind, bar, role, cause, CAST(SUM(ns) AS BIGINT) AS ns
FROM bar
WHERE ns <> 0
GROUP BY rank, step_id, kind, bar, role, cause
ORDER BY rank, step_id, kind, bar, role, cause
