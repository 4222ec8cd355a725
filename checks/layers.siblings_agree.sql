-- One row per layer whose parts differ from those of most layers of its forward pass.
--
-- A part is a role with the number of its kernels. Reductions, copies, fills and other small
-- kernels do not count, because a layer may or may not have them.
WITH part AS (
    SELECT
        rank,
        pass,
        layer,
        role,
        COUNT(*) FILTER (NOT list_contains(symbol.traits, 'optional')) AS kernels
    FROM kernel
    INNER JOIN symbol ON kernel.symbol = symbol.letter
    WHERE layer IS NOT NULL AND pass IS NOT NULL
    GROUP BY rank, pass, layer, role
),
layer_parts AS (
    SELECT rank, pass, layer, STRING_AGG(COALESCE(role, '?') || ' x' || kernels, ', ' ORDER BY role) AS parts
    FROM part
    GROUP BY rank, pass, layer
),
usual AS (
    SELECT rank, pass, mode(parts) AS parts FROM layer_parts GROUP BY rank, pass
)
SELECT layer_parts.rank, layer_parts.pass, layer_parts.layer, layer_parts.parts, usual.parts AS usual
FROM layer_parts
INNER JOIN usual USING (rank, pass)
WHERE layer_parts.parts <> usual.parts
ORDER BY ALL
