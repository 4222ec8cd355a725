-- One row per rank, step, layer and role of experts: how much longer they computed than those of their peers.
--
-- Peers are the ranks of the communicator that carries the tokens of experts or sums their results.
-- @scope  run
-- @needs  aligned_step, collective, kernel, step_time
-- @empty_unless collective
-- @column rank       BIGINT   Rank.
-- @column step_id    BIGINT   Step (step.step_id).
-- @column layer      BIGINT   Model layer; NULL outside layers.
-- @column role       VARCHAR  experts_gate_up or experts_down.
-- @column excess_ns  DOUBLE   Time that the step computed in it beyond the mean of the peers in the same iteration, ns; negative if it was faster.
WITH expert_group AS (
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
spent AS (
    SELECT rank, step_id, layer, role, SUM(ns) AS computing_ns
    FROM step_time
    WHERE part = 'computing' AND role IN ('experts_gate_up', 'experts_down')
    GROUP BY rank, step_id, layer, role
)
SELECT
    spent.rank,
    spent.step_id,
    spent.layer,
    spent.role,
    spent.computing_ns - AVG(spent.computing_ns) OVER (
        PARTITION BY expert_group.communicator_id, aligned_step.iteration, spent.layer, spent.role
    ) AS excess_ns
FROM spent
INNER JOIN expert_group USING (rank)
INNER JOIN aligned_step ON spent.step_id = aligned_step.step_id
ORDER BY spent.rank, spent.step_id, spent.layer, spent.role
