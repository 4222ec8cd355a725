-- One row per layer whose parts differ from those of most layers of its kind in its forward pass.
--
-- Layers are of one kind if, in most passes, all or none of them write a KV cache, update a state
-- (linear attention, state-space models), rotate positions and have experts. A part is a role with
-- the number of its kernels. Reductions, copies, fills and other small kernels do not count, because
-- a layer may or may not have them.
WITH part AS (
    SELECT
        kernel.rank,
        kernel.pass,
        kernel.layer,
        kernel.role,
        COUNT(*) FILTER (NOT list_contains(symbol.traits, 'optional')) AS kernels,
        BOOL_OR(kernel.category = 'kv_cache') AS has_cache,
        BOOL_OR(symbol.name IN ('state_update', 'state_prefill')) AS has_state,
        BOOL_OR(kernel.category = 'rope') AS has_rope,
        BOOL_OR(kernel.category = 'moe') AS has_experts
    FROM kernel
    INNER JOIN reference.symbol ON kernel.symbol = symbol.letter
    SEMI JOIN internal.rank_model ON kernel.rank = rank_model.rank
    WHERE kernel.layer IS NOT NULL AND kernel.pass IS NOT NULL
    GROUP BY kernel.rank, kernel.pass, kernel.layer, kernel.role
),
layer_parts AS (
    SELECT
        rank,
        pass,
        layer,
        STRING_AGG(COALESCE(role, '?') || ' x' || kernels, ', ' ORDER BY role) FILTER (kernels > 0) AS parts,
        (BOOL_OR(has_cache), BOOL_OR(has_state), BOOL_OR(has_rope), BOOL_OR(has_experts)) AS kind
    FROM part
    GROUP BY rank, pass, layer
),
kind_of_layer AS (
    SELECT rank, layer, mode(kind) AS kind FROM layer_parts GROUP BY rank, layer
),
usual AS (
    SELECT layer_parts.rank, layer_parts.pass, kind_of_layer.kind, mode(layer_parts.parts) AS parts
    FROM layer_parts
    INNER JOIN kind_of_layer USING (rank, layer)
    GROUP BY layer_parts.rank, layer_parts.pass, kind_of_layer.kind
)
SELECT layer_parts.rank, layer_parts.pass, layer_parts.layer, layer_parts.parts, usual.parts AS usual
FROM layer_parts
INNER JOIN kind_of_layer USING (rank, layer)
INNER JOIN usual ON layer_parts.rank = usual.rank AND layer_parts.pass = usual.pass AND kind_of_layer.kind = usual.kind
WHERE layer_parts.parts <> usual.parts
ORDER BY ALL
