-- One row per measured shape of weights and range of rows: how long a product takes there; empty without peaks.json.
--
-- Between two measured numbers of rows, the duration is a straight line over rows: it is nearly constant
-- where weights have to be read, and proportional to rows where FLOPs count.
-- @scope  run
-- @needs  measured_product
-- @empty_unless measured_product
-- @column device_name    VARCHAR  Name of the GPU.
-- @column role           VARCHAR  Part of the model (kernel.role).
-- @column dtype          VARCHAR  Type of the numbers.
-- @column flops_per_row  BIGINT   2 x inputs x outputs: the shape of the weights, as in model_part.
-- @column from_rows      BIGINT   Fewest rows in the range.
-- @column to_rows        BIGINT   End of the range: the next measured number; NULL of the most rows that were measured.
-- @column ns             DOUBLE   Duration with from_rows, ns.
-- @column ns_per_row     DOUBLE   What it takes more per row beyond from_rows, ns; 0 of the most rows that were measured.
SELECT
    device_name,
    role,
    dtype,
    2 * k * n AS flops_per_row,
    m AS from_rows,
    LEAD(m) OVER larger AS to_rows,
    ns,
    COALESCE((LEAD(ns) OVER larger - ns) / (LEAD(m) OVER larger - m), 0) AS ns_per_row
FROM measured_product
WHERE role IS NOT NULL
WINDOW larger AS (PARTITION BY device_name, role, dtype, k, n ORDER BY m)
ORDER BY ALL
