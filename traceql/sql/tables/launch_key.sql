-- One row per kernel of the trace and per profiled launch: the key by which they are compared.
--
-- It is empty as long as no profile of Nsight Compute is loaded. Kernels without a grid have no key.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, parsed_kernel_name, profiled_launch
-- @empty_unless parsed_kernel_name
-- @column kernel_id  BIGINT     Kernel (kernel.id); NULL for a launch.
-- @column launch     BIGINT     Profiled launch (profiled_launch.id); NULL for a kernel.
-- @column base       VARCHAR    Name of the function (parsed_kernel_name.base).
-- @column arguments  VARCHAR    Template arguments, if kernels and launches of this base, grid and block have them in common; else NULL.
-- @column grid       INTEGER[]  Blocks in x, y and z.
-- @column block      INTEGER[]  Threads of a block in x, y and z.
-- @column key_id     BIGINT     Number of the base, grid, block and arguments (kernel_key.id).
WITH either AS (
    SELECT
        kernel.id AS kernel_id,
        CAST(NULL AS BIGINT) AS launch,
        parsed_kernel_name.base, parsed_kernel_name.arguments, kernel.grid, kernel.block
    FROM kernel
    INNER JOIN parsed_kernel_name USING (name)
    WHERE kernel.kind = 'kernel' AND kernel.grid IS NOT NULL AND kernel.block IS NOT NULL
    UNION ALL
    SELECT
        CAST(NULL AS BIGINT) AS kernel_id,
        profiled_launch.id AS launch,
        parsed_kernel_name.base, parsed_kernel_name.arguments, profiled_launch.grid,
        profiled_launch.block
    FROM profiled_launch
    INNER JOIN parsed_kernel_name USING (name)
    WHERE profiled_launch.kind = 'kernel'
),
-- Where both sides write the same arguments, these distinguish kernels of one size.
common AS (
    SELECT base, grid, block, arguments
    FROM either
    WHERE arguments IS NOT NULL
    GROUP BY base, grid, block, arguments
    HAVING COUNT(kernel_id) > 0 AND COUNT(launch) > 0
)
SELECT
    either.kernel_id, either.launch, either.base, common.arguments, either.grid, either.block,
    dense_rank() OVER (ORDER BY either.base, either.grid, either.block, common.arguments) - 1 AS key_id
FROM either
LEFT JOIN common
    ON either.base = common.base
    AND either.grid = common.grid
    AND either.block = common.block
    AND either.arguments = common.arguments
