-- One row per rank that has products of which both the recorded shapes and the configuration say how large they are.
-- @kind   scratch
-- @scope  run
-- @needs  layout, model_part, operator_size, rank_model
-- @empty_unless operator_size
-- @column rank   BIGINT   Rank.
-- @column parts  BIGINT   Number of these products, by layer and role.
-- @column equal  BIGINT   Number of those of which both say the same; if it is not all, the configuration is of another model.
SELECT
    shape.rank,
    COUNT(*) AS parts,
    COUNT(*) FILTER (shape.flops_per_row = model_part.flops_per_row) AS equal
FROM operator_size AS shape
INNER JOIN layout ON shape.rank = layout.rank
INNER JOIN rank_model ON shape.rank = rank_model.rank AND rank_model.first_layer IS NOT NULL
INNER JOIN model_part
    ON layout.tp_size = model_part.tp
    AND shape.role = model_part.role
    AND shape.layer IS NOT DISTINCT FROM model_part.layer
WHERE shape.formula = 'product' AND model_part.formula = 'product'
GROUP BY shape.rank
