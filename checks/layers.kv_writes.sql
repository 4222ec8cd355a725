-- One row per KV-cache write that belongs to no layer, although the model of its rank is known.
--
-- Each of them stands for a layer that could not be attributed.
SELECT kernel.rank, kernel.step_id, kernel.id, kernel.name
FROM kernel
INNER JOIN rank_model USING (rank)
WHERE kernel.category = 'kv_cache' AND kernel.layer IS NULL
ORDER BY ALL
