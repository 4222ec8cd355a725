-- One row per layer of a forward pass and role of which the layer does not have exactly one kernel.
--
-- A family may have several kinds of layers (table layer_kind). The kind of a layer is the one whose
-- roles in `once` it has best, and only these are checked. Only kernels that do the work of their
-- role count; copies do not, for example. Of a norm that runs as several elementwise kernels, the one
-- that takes the reciprocal square root counts.
WITH work AS (
    SELECT
        kernel.rank,
        kernel.pass,
        kernel.layer,
        kernel.role,
        COUNT(*) FILTER (
            list_contains(symbol.traits, 'does_work') OR (symbol.name = 'elementwise' AND kernel.name LIKE '%rsqrt%')
        ) AS kernels
    FROM kernel
    INNER JOIN reference.symbol ON kernel.symbol = symbol.letter
    WHERE kernel.layer IS NOT NULL
    GROUP BY kernel.rank, kernel.pass, kernel.layer, kernel.role
),
layer_done AS (
    SELECT DISTINCT rank, pass, layer FROM work WHERE pass IS NOT NULL
),
expected AS (
    SELECT layer_done.*, layer_kind.kind, UNNEST(layer_kind.once) AS role
    FROM layer_done
    INNER JOIN internal.rank_model USING (rank)
    INNER JOIN reference.layer_kind USING (family)
),
found AS (
    SELECT expected.*, COALESCE(work.kernels, 0) AS kernels
    FROM expected
    LEFT JOIN work USING (rank, pass, layer, role)
),
fit AS (
    SELECT rank, pass, layer, kind, COUNT(*) FILTER (kernels = 1) AS fitting, COUNT(*) FILTER (kernels <> 1) AS wrong
    FROM found
    GROUP BY rank, pass, layer, kind
),
likely AS (
    SELECT rank, pass, layer, arg_min(kind, (wrong, -fitting, kind)) AS kind
    FROM fit
    GROUP BY rank, pass, layer
)
SELECT found.rank, found.pass, found.layer, found.role, found.kernels
FROM found
INNER JOIN likely USING (rank, pass, layer, kind)
WHERE found.kernels <> 1
ORDER BY ALL
