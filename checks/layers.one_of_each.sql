-- One row per layer of a forward pass and role of which the layer does not have exactly one kernel.
--
-- Only the roles in `once` of the rank's family are checked (table layer_family). Only kernels that
-- do the work of their role count; copies do not, for example.
WITH work AS (
    SELECT
        kernel.rank,
        kernel.pass,
        kernel.layer,
        kernel.role,
        COUNT(*) FILTER (list_contains(symbol.traits, 'does_work')) AS kernels
    FROM kernel
    INNER JOIN symbol ON kernel.symbol = symbol.letter
    WHERE kernel.layer IS NOT NULL
    GROUP BY kernel.rank, kernel.pass, kernel.layer, kernel.role
),
layer_done AS (
    SELECT DISTINCT rank, pass, layer FROM work WHERE pass IS NOT NULL
),
expected AS (
    SELECT layer_done.*, UNNEST(layer_family.once) AS role
    FROM layer_done
    INNER JOIN rank_model USING (rank)
    INNER JOIN layer_family USING (family)
)
SELECT
    expected.rank,
    expected.pass,
    expected.layer,
    expected.role,
    COALESCE(work.kernels, 0) AS kernels
FROM expected
LEFT JOIN work USING (rank, pass, layer, role)
WHERE COALESCE(work.kernels, 0) <> 1
ORDER BY ALL
