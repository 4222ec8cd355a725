-- One row per phase and number of tokens of a model with experts: how well its rows fill the experts' blocks.
--
-- Use it to see what a small batch costs: each expert that any token chooses reads its weights, and its
-- rows are padded to whole blocks. A trace does not say which experts the tokens choose: the numbers of
-- experts and of padded rows are those expected if all experts are equally likely; routing that prefers
-- some touches fewer. The size of a block follows from the grids of vLLM's fused_moe_kernel; as long as
-- there are fewer rows than experts it is unknown, and 16, the smallest one, gives the least
-- number of rows. Query ep.balance compares the ranks.
-- @param  rank                BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase               VARCHAR = NULL  Only this phase; all by default.
-- @values phase               prefill decode mixed idle
-- @column phase               VARCHAR  Phase of the steps.
-- @column tokens              BIGINT   Useful tokens of a step.
-- @column executed_tokens     BIGINT   Tokens that the kernels run, with the padding of CUDA graphs; NULL if unknown.
-- @column routed_rows         BIGINT   Useful rows of the experts of a layer: tokens x experts that each of them uses.
-- @column executed_rows       DOUBLE   Expected rows with padding to blocks, in all experts of a layer; NULL if the kernel is another one, or the tokens prefer some experts.
-- @column fill_pct            DOUBLE   routed_rows in percent of executed_rows; NULL if unknown.
-- @column block_rows          BIGINT   Rows of a block; NULL if unknown.
-- @column touched_experts     DOUBLE   Experts of a layer that are expected to be chosen by the useful tokens; NULL if their time shows that they are fewer.
-- @column experts             BIGINT   Experts of a layer.
-- @column experts_ns          DOUBLE   Time of a layer's expert products, mean of the ranks, ns.
-- @column slowest_ns          DOUBLE   Time on the slowest rank of each layer and step, mean, ns.
-- @column ceiling_pct         DOUBLE   Time at the peaks of the data sheet in percent of experts_ns; NULL if unknown.
-- @column steps               BIGINT   Steps with these tokens.
-- @key    phase tokens executed_tokens routed_rows executed_rows fill_pct block_rows touched_experts experts experts_ns slowest_ns ceiling_pct
-- @empty  the model has no experts, its configuration is not known (traceql load --model-config), or the tokens of its steps are not
-- @chart  bar x=fill_pct y=executed_tokens color=phase
-- @title  Useful share of the rows that the experts execute
WITH model AS (
    SELECT experts, top_k, hidden FROM model_size WHERE top_k < experts
),
ran AS (
    SELECT
        step.rank, step.step_id, aligned_step.iteration, step.phase, kernel.layer,
        SUM(kernel.dur) AS experts_ns,
        MAX(kernel.grid[1]) FILTER (kernel.role = 'experts_gate_up') AS up_blocks,
        MAX(kernel.grid[1]) FILTER (kernel.role = 'experts_down') AS down_blocks,
        BOOL_AND(kernel.name LIKE '%fused_moe_kernel%') AS is_triton
    FROM kernel
    INNER JOIN step USING (step_id)
    INNER JOIN aligned_step USING (step_id)
    WHERE
        kernel.role IN ('experts_gate_up', 'experts_down')
        AND kernel.category = 'moe'
        AND ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
    GROUP BY step.rank, step.step_id, aligned_step.iteration, step.phase, kernel.layer
),
floored AS (
    SELECT step_id, layer, SUM(floor_ns ORDER BY floor_ns) AS floor_ns, BOOL_OR(missing LIKE 'experts that the tokens chose%') AS is_uneven
    FROM role_time
    WHERE role IN ('experts_gate_up', 'experts_down') AND kind = 'data sheet'
    GROUP BY step_id, layer
),
-- A layer in a step, on all its ranks.
layer_run AS (
    SELECT
        ran.iteration, ran.layer, ran.phase, step_tokens.tokens,
        COALESCE(step_tokens.executed_tokens, step_tokens.tokens) AS executed_tokens,
        AVG(ran.experts_ns) AS experts_ns,
        MAX(ran.experts_ns) AS slowest_ns,
        AVG(floored.floor_ns) AS floor_ns,
        BOOL_OR(floored.is_uneven) AS is_uneven,
        MAX(ran.up_blocks) AS up_blocks,
        MAX(ran.down_blocks) AS down_blocks,
        BOOL_AND(ran.is_triton) AS is_triton
    FROM ran
    INNER JOIN step_tokens USING (step_id)
    LEFT JOIN floored ON ran.step_id = floored.step_id AND ran.layer = floored.layer
    GROUP BY ran.iteration, ran.layer, ran.phase, step_tokens.tokens, step_tokens.executed_tokens
),
batch AS (
    SELECT
        phase, tokens, executed_tokens,
        AVG(experts_ns) AS experts_ns,
        AVG(slowest_ns) AS slowest_ns,
        100 * SUM(floor_ns ORDER BY floor_ns) / SUM(experts_ns) AS ceiling_pct,
        COUNT(DISTINCT iteration) AS steps,
        mode(up_blocks) AS up_blocks,
        mode(down_blocks) AS down_blocks,
        BOOL_AND(is_triton) AS is_triton,
        COALESCE(BOOL_OR(is_uneven), FALSE) AS is_uneven
    FROM layer_run
    WHERE tokens > 0
    GROUP BY phase, tokens, executed_tokens
),
-- vLLM's moe_align_block_size reserves this number of rows; the grid has one block for each tile of them.
reserved AS (
    SELECT
        batch.*, model.experts, model.top_k, model.hidden, size.block_rows,
        LEAST(
            executed_tokens * top_k + experts * (size.block_rows - 1),
            CASE WHEN executed_tokens * top_k < experts THEN executed_tokens * top_k * size.block_rows END
        ) AS reserved_rows
    FROM batch
    CROSS JOIN model
    CROSS JOIN (SELECT UNNEST([16, 32, 64, 128, 256])::BIGINT AS block_rows) AS size
),
fitting AS (
    SELECT
        reserved.phase, reserved.tokens, reserved.executed_tokens,
        CASE WHEN COUNT(DISTINCT reserved.block_rows) = 1 THEN MIN(reserved.block_rows) END AS block_rows
    FROM reserved
    CROSS JOIN (SELECT UNNEST([16, 32, 64, 128, 256]) AS columns) AS width
    WHERE
        is_triton
        AND down_blocks = ceil(reserved_rows / block_rows) * ceil(hidden / width.columns)
        AND up_blocks % ceil(reserved_rows / block_rows) = 0
    GROUP BY reserved.phase, reserved.tokens, reserved.executed_tokens
),
known AS (
    SELECT
        batch.*, model.experts, model.top_k, fitting.block_rows,
        CASE WHEN batch.is_triton AND NOT batch.is_uneven THEN COALESCE(fitting.block_rows, CASE WHEN batch.executed_tokens * model.top_k <= model.experts THEN 16 END) END
            AS least_block
    FROM batch
    CROSS JOIN model
    LEFT JOIN fitting
        ON batch.phase = fitting.phase
        AND batch.tokens = fitting.tokens
        AND batch.executed_tokens = fitting.executed_tokens
),
-- The number of rows of one expert is binomial; it runs whole blocks.
padded AS (
    SELECT
        *,
        experts * list_sum(list_transform(
            range(1, executed_tokens + 1),
            lambda n: least_block * ceil(n / least_block) * exp(
                lgamma(executed_tokens + 1) - lgamma(n + 1) - lgamma(executed_tokens - n + 1)
                + n * ln(top_k / experts)
                + (executed_tokens - n) * ln(1 - top_k / experts)
            )
        )) AS executed_rows
    FROM known
)
SELECT
    phase, tokens, executed_tokens,
    tokens * top_k AS routed_rows,
    executed_rows,
    100 * tokens * top_k / executed_rows AS fill_pct,
    block_rows,
    CASE WHEN NOT is_uneven THEN experts * (1 - pow(1 - top_k / experts, tokens)) END AS touched_experts,
    experts, experts_ns, slowest_ns, ceiling_pct, steps
FROM padded
ORDER BY phase, tokens
