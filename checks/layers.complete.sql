-- One row per forward pass that has not exactly the layers that its rank holds.
--
-- A pass that the recording cut off, or that an unknown kernel disturbs, is reported too.
SELECT kernel.rank, kernel.step_id, kernel.pass, COUNT(DISTINCT kernel.layer) AS layers, rank_model.layers AS expected
FROM kernel
INNER JOIN rank_model USING (rank)
WHERE kernel.pass IS NOT NULL
GROUP BY kernel.rank, kernel.step_id, kernel.pass, rank_model.layers
HAVING COUNT(DISTINCT kernel.layer) <> rank_model.layers
ORDER BY ALL
