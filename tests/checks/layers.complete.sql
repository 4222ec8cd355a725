-- One row per forward pass with fewer or more layers than its rank holds.
--
-- It also reports a pass that the recording cut off, or in which an unknown kernel hid a layer.
SELECT kernel.rank, kernel.step_id, kernel.pass, COUNT(DISTINCT kernel.layer) AS layers, rank_model.layers AS expected
FROM kernel
INNER JOIN internal.rank_model USING (rank)
WHERE kernel.pass IS NOT NULL
GROUP BY kernel.rank, kernel.step_id, kernel.pass, rank_model.layers
HAVING COUNT(DISTINCT kernel.layer) <> rank_model.layers
ORDER BY ALL
