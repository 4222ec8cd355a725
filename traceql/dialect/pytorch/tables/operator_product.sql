-- One row per rank, layer and role whose matrix products were launched by operators with recorded shapes.
--
-- A role whose matrices differ from step to step has no row.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, shaped_operator, slice
-- @empty_unless shaped_operator
-- @column rank           BIGINT    Rank.
-- @column layer          BIGINT    Model layer; NULL outside layers.
-- @column role           VARCHAR   Part of the model (kernel.role).
-- @column flops_per_row  BIGINT    FLOPs for each row: 2 for each element of the matrices.
-- @column weight_bytes   DOUBLE    Bytes of the matrices, and of their scales.
-- @column tensor_bytes   BIGINT[]  Bytes per row of the input and, with elements of 2 bytes, of the output of each product.
-- @column dtype          VARCHAR   Whose peak the FLOPs count against: bf16, fp8 or int8; NULL for other types.
WITH called AS (
    SELECT DISTINCT kernel.rank, kernel.step_id, kernel.pass, kernel.layer, kernel.role, slice.external_id
    FROM kernel
    INNER JOIN slice USING (id)
    WHERE
        kernel.category = 'gemm'
        AND NOT kernel.in_graph
        AND kernel.role IS NOT NULL
        AND kernel.rank IN (SELECT rank FROM shaped_operator)
),
-- The matrix is the last of two inputs that are multiplied.
product AS (
    SELECT
        called.rank,
        called.step_id,
        called.pass,
        called.layer,
        called.role,
        operator.name,
        CASE WHEN operator.name IN ('aten::mm', 'aten::_scaled_mm') THEN 1 ELSE 2 END AS place,
        operator.dims,
        operator.types
    FROM called
    INNER JOIN shaped_operator AS operator
        ON called.rank = operator.rank AND called.external_id = operator.external_id
    WHERE operator.name IN ('aten::mm', 'aten::addmm', 'aten::_scaled_mm', '_C::cutlass_scaled_mm')
),
shaped AS (
    SELECT
        *,
        TRY_CAST(dims[place + 1] AS BIGINT[]) AS matrix,
        -- Scaled products: the scales of the matrix, of 4 bytes each.
        CASE WHEN name LIKE '%scaled_mm' THEN list_product(TRY_CAST(dims[place + 3] AS BIGINT[])) ELSE 0 END AS scales,
        CASE
            WHEN types[place + 1] ILIKE '%float8%' THEN 'fp8'
            WHEN types[place + 1] IN ('signed char', 'char', 'c10::Char') THEN 'int8'
            WHEN types[place + 1] ILIKE '%bfloat16%' OR types[place + 1] ILIKE '%half%' THEN 'bf16'
        END AS dtype
    FROM product
),
matrix AS (
    SELECT *, matrix[1] AS inner_size, matrix[2] AS outer_size, CASE dtype WHEN 'bf16' THEN 2 ELSE 1 END AS element_bytes
    FROM shaped
    WHERE len(matrix) = 2 AND dtype IS NOT NULL
),
of_step AS (
    SELECT
        rank,
        layer,
        role,
        CAST(SUM(2 * inner_size * outer_size) AS BIGINT) AS flops_per_row,
        CAST(SUM(inner_size * outer_size * element_bytes + 4 * COALESCE(scales, 0)) AS DOUBLE) AS weight_bytes,
        list_concat(
            list(inner_size * element_bytes ORDER BY inner_size, outer_size),
            list(2 * outer_size ORDER BY inner_size, outer_size)
        ) AS tensor_bytes,
        MIN(dtype) AS dtype,
        COUNT(DISTINCT dtype) AS types
    FROM matrix
    GROUP BY rank, step_id, pass, layer, role
)
SELECT
    rank,
    layer,
    role,
    MIN(flops_per_row) AS flops_per_row,
    MIN(weight_bytes) AS weight_bytes,
    ANY_VALUE(tensor_bytes) AS tensor_bytes,
    MIN(dtype) AS dtype
FROM of_step
GROUP BY rank, layer, role
HAVING COUNT(DISTINCT weight_bytes) = 1 AND COUNT(DISTINCT dtype) = 1 AND MAX(types) = 1
