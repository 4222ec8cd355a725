-- One row per rank, forward pass, layer and role: how many kernels it has there.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, rank_model, symbol
-- @empty_unless rank_model
-- @column rank        BIGINT   Rank.
-- @column pass        BIGINT   Number of the forward pass.
-- @column layer       BIGINT   Model layer.
-- @column role        VARCHAR  Role.
-- @column kernels     BIGINT   Kernels, without those that a layer may or may not have.
-- @column workers     BIGINT   Kernels that do the work of the role; of a norm of several elementwise kernels, the one with the reciprocal square root.
-- @column has_cache   BOOLEAN  Whether one writes a KV cache.
-- @column has_state   BOOLEAN  Whether one updates a state (linear attention, state-space models).
-- @column has_rope    BOOLEAN  Whether one rotates positions.
-- @column has_experts BOOLEAN  Whether one is of experts.
SELECT
    kernel.rank, kernel.pass, kernel.layer, kernel.role,
    COUNT(*) FILTER (NOT list_contains(symbol.traits, 'optional')) AS kernels,
    COUNT(*) FILTER (
        list_contains(symbol.traits, 'does_work') OR (symbol.name = 'elementwise' AND contains(kernel.name, 'rsqrt'))
    ) AS workers,
    BOOL_OR(kernel.category = 'kv_cache') AS has_cache,
    BOOL_OR(symbol.name IN ('state_update', 'state_prefill')) AS has_state,
    BOOL_OR(kernel.category = 'rope') AS has_rope,
    BOOL_OR(kernel.category = 'moe') AS has_experts
FROM kernel
INNER JOIN symbol ON kernel.symbol = symbol.letter
SEMI JOIN rank_model ON kernel.rank = rank_model.rank
WHERE kernel.layer IS NOT NULL AND kernel.pass IS NOT NULL
GROUP BY kernel.rank, kernel.pass, kernel.layer, kernel.role
