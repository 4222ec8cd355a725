-- One row per rank with experts, or per layer and rank: its expert work compared with other ranks.
--
-- Use it to find out whether the experts' load is balanced across ranks. A trace does not say which
-- tokens go to which expert, but it has the time of the expert kernels. The form is how tokens
-- reach the experts: dispatch/combine if operations with these roles carry them, or all-reduce if
-- every rank has all tokens and the partial results are summed.
-- @param  by             VARCHAR = 'rank'  One row per rank, or per layer and rank.
-- @values by             rank layer
-- @column layer          BIGINT   Model layer; NULL if by is rank.
-- @column rank           BIGINT   Rank.
-- @column group_ranks    VARCHAR  Ranks that share the experts: the loaded ones, and others that events name; NULL if the rank communicates with none.
-- @column form           VARCHAR  dispatch/combine or all-reduce; NULL if the rank communicates with none.
-- @column calls          BIGINT   Passes through the experts, counted by their gate and up projections.
-- @column experts_ns     BIGINT   Time in the experts' matrix products (roles experts_gate_up and experts_down), ns.
-- @column ratio          DOUBLE   experts_ns divided by the mean of the communicator's ranks.
-- @column routing_ns     BIGINT   Time to choose experts, sort tokens and sum results (topk, moe_align, moe_sum), ns.
-- @column comm_ns        BIGINT   Time in dispatch and combine, or in the all-reduce after the experts, ns.
-- @column wait_ns        BIGINT   Part of comm_ns spent waiting for the late rank, ns; NULL if not matched.
-- @column transfer_ns    BIGINT   Part of comm_ns spent transferring data, ns; NULL if not matched.
-- @column tokens         BIGINT   Tokens of the rank's own steps: prompt tokens and generated tokens.
-- @key    layer rank experts_ns ratio wait_ns transfer_ns comm_ns calls
-- @empty  no expert kernels were attributed to a layer: the model is dense, or its layers were not recognized (traceql check)
-- @chart  bar x=experts_ns y=rank
-- @title  Time in expert kernels of each rank
WITH placed AS (
    SELECT
        kernel.id, kernel.rank,
        CASE WHEN $by::VARCHAR = 'layer' THEN kernel.layer END AS layer,
        kernel.role, kernel.dur,
        kernel.role IN ('dispatch', 'combine') AS dispatches
    FROM kernel
    WHERE kernel.role IN (
        'experts_gate_up', 'experts_down', 'topk', 'moe_align', 'moe_sum', 'dispatch', 'combine',
        'mlp_allreduce'
    )
),
-- If tokens are dispatched, an all-reduce does not belong to the experts.
of_rank AS (
    SELECT rank, BOOL_OR(dispatches) AS dispatches
    FROM placed
    GROUP BY rank
    HAVING BOOL_OR(role IN ('experts_gate_up', 'experts_down'))
),
operation AS (
    SELECT
        placed.rank, placed.layer,
        mode(collective.communicator_id) AS communicator_id,
        SUM(placed.dur) AS comm_ns,
        SUM(collective.wait_ns) AS wait_ns,
        SUM(collective.transfer_ns) AS transfer_ns
    FROM placed
    INNER JOIN of_rank USING (rank)
    INNER JOIN collective ON placed.id = collective.kernel_id
    WHERE placed.dispatches = of_rank.dispatches
    GROUP BY placed.rank, placed.layer
),
work AS (
    SELECT
        rank, layer,
        COUNT(*) FILTER (role = 'experts_gate_up') AS calls,
        COALESCE(SUM(dur) FILTER (role IN ('experts_gate_up', 'experts_down')), 0) AS experts_ns,
        COALESCE(SUM(dur) FILTER (role IN ('topk', 'moe_align', 'moe_sum')), 0) AS routing_ns
    FROM placed
    GROUP BY rank, layer
),
processed AS (
    SELECT rank, CAST(SUM(context_tokens + generation_tokens) AS BIGINT) AS tokens
    FROM step
    GROUP BY rank
)
SELECT
    work.layer, work.rank, communicator.group_ranks,
    CASE
        WHEN operation.communicator_id IS NULL THEN NULL
        WHEN of_rank.dispatches THEN 'dispatch/combine'
        ELSE 'all-reduce'
    END AS form,
    work.calls,
    CAST(work.experts_ns AS BIGINT) AS experts_ns,
    work.experts_ns / AVG(work.experts_ns) OVER (
        PARTITION BY work.layer, operation.communicator_id,
            CASE WHEN operation.communicator_id IS NULL THEN work.rank END
    ) AS ratio,
    CAST(work.routing_ns AS BIGINT) AS routing_ns,
    CAST(COALESCE(operation.comm_ns, 0) AS BIGINT) AS comm_ns,
    CAST(operation.wait_ns AS BIGINT) AS wait_ns,
    CAST(operation.transfer_ns AS BIGINT) AS transfer_ns,
    processed.tokens
FROM work
INNER JOIN of_rank USING (rank)
LEFT JOIN operation ON work.rank = operation.rank AND work.layer IS NOT DISTINCT FROM operation.layer
LEFT JOIN communicator USING (communicator_id)
LEFT JOIN processed ON work.rank = processed.rank
WHERE work.experts_ns > 0
ORDER BY work.layer, work.rank
