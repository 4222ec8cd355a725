-- One row per KV-cache write that belongs to no layer.
--
-- Each of them stands for a layer that could not be attributed.
SELECT rank, step_id, id, name
FROM kernel
WHERE category = 'kv_cache' AND layer IS NULL
ORDER BY ALL
