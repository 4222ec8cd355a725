-- One row per name, grid and block of kernels: how many the trace has, and how many launches Nsight Compute profiled.
--
-- It is empty as long as no profile is loaded. Template arguments count where both sides write the
-- same ones. Means and spreads are of one profile: the least rounded one that has the count.
-- @scope  run
-- @needs  kernel, launch_key, profiled_launch, profiled_work
-- @empty_unless launch_key
-- @column id                BIGINT     Number of the key.
-- @column base              VARCHAR    Name of the function, without namespaces, template arguments and parameters.
-- @column arguments         VARCHAR    Template arguments that distinguish it from others of this name, grid and block; NULL if none do.
-- @column grid              INTEGER[]  Blocks in x, y and z; NULL if a profile does not have them.
-- @column block             INTEGER[]  Threads of a block in x, y and z; NULL if a profile does not have them.
-- @column name              VARCHAR    Name of a kernel of the trace with this key; NULL if there is none.
-- @column category          VARCHAR    Kernel category of these; NULL if there is none.
-- @column kernels           BIGINT     Number of kernels of the trace.
-- @column kernel_ns         BIGINT     Their summed duration, ns.
-- @column launches          BIGINT     Number of profiled launches.
-- @column ncu_ns            DOUBLE     Mean duration of the launches, ns, under Nsight Compute; NULL if unknown.
-- @column dram_bytes        DOUBLE     Mean bytes of a launch from and to the memory; NULL if unknown.
-- @column flops             DOUBLE     Mean FLOPs of a launch (profiled_work.flops); NULL if unknown.
-- @column bytes_spread_pct  DOUBLE     Difference between the most and the fewest dram_bytes of its launches in percent of their mean; NULL if unknown.
-- @column flops_spread_pct  DOUBLE     The same of their flops, percent; NULL if unknown.
-- @column launch_skip       BIGINT     Kernels of this base, of any grid and block, before the first one of this key on the lowest rank that has it; NULL without kernels.
WITH placed AS (
    SELECT
        launch_key.key_id, kernel.rank, kernel.dur, kernel.name, kernel.category,
        ROW_NUMBER() OVER (PARTITION BY kernel.rank, launch_key.base ORDER BY kernel.ts, kernel.id) - 1 AS place
    FROM launch_key
    INNER JOIN kernel ON launch_key.kernel_id = kernel.id
),
traced AS (
    SELECT
        key_id,
        COUNT(*) AS kernels,
        CAST(SUM(dur) AS BIGINT) AS kernel_ns,
        MIN(name) AS name,
        MIN(category) AS category,
        arg_min(place, ROW(rank, place)) AS launch_skip
    FROM placed
    GROUP BY key_id
),
of_file AS (
    SELECT
        launch_key.key_id,
        ROW(MAX(work.bytes_step), profiled_launch.file_id) AS place,
        COUNT(*) AS launches,
        AVG(work.dur) AS ncu_ns,
        AVG(work.dram_bytes) AS dram_bytes,
        AVG(work.flops) AS flops,
        100 * (MAX(work.dram_bytes) - MIN(work.dram_bytes)) / NULLIF(AVG(work.dram_bytes), 0) AS bytes_spread_pct,
        100 * (MAX(work.flops) - MIN(work.flops)) / NULLIF(AVG(work.flops), 0) AS flops_spread_pct
    FROM launch_key
    INNER JOIN profiled_launch ON launch_key.launch = profiled_launch.id
    INNER JOIN profiled_work AS work ON launch_key.launch = work.launch
    GROUP BY launch_key.key_id, profiled_launch.file_id
),
profiled AS (
    SELECT
        key_id,
        CAST(SUM(launches) AS BIGINT) AS launches,
        arg_min(ncu_ns, place) AS ncu_ns,
        arg_min(dram_bytes, place) AS dram_bytes,
        arg_min(flops, place) AS flops,
        arg_min(bytes_spread_pct, place) AS bytes_spread_pct,
        arg_min(flops_spread_pct, place) AS flops_spread_pct
    FROM of_file
    GROUP BY key_id
),
key AS (SELECT DISTINCT key_id, base, arguments, grid, block FROM launch_key)
SELECT
    key.key_id AS id,
    key.base, key.arguments, key.grid, key.block, traced.name, traced.category,
    COALESCE(traced.kernels, 0) AS kernels,
    COALESCE(traced.kernel_ns, 0) AS kernel_ns,
    COALESCE(profiled.launches, 0) AS launches,
    profiled.ncu_ns, profiled.dram_bytes, profiled.flops, profiled.bytes_spread_pct,
    profiled.flops_spread_pct, traced.launch_skip
FROM key
LEFT JOIN traced USING (key_id)
LEFT JOIN profiled USING (key_id)
ORDER BY id
