-- One row per name, grid and block of kernels: whether the trace and the profiles of Nsight Compute both have it.
--
-- Use it to see what the counters cover, how launches were tied to kernels, and how to profile the
-- rest. A profile may also be loaded alone: then these are its launches. Graphs and ranges that were
-- profiled as one stand for no kernel: profile their kernels (--graph-profiling node). The command is a
-- suggestion: it counts launches from where the trace began, so begin profiling there too.
-- @param  limit             BIGINT  = 50    Rows to return.
-- @param  joined            VARCHAR = NULL  Only this kind of row; all by default.
-- @values joined            order range mean 'only trace' 'only profile'
-- @column kernel            VARCHAR  Name of the function, with its template arguments where they tell kernels apart; (graph) and (range) are those that were profiled as one.
-- @column joined            VARCHAR  order (launches and all kernels of a rank have one sequence), range (those of a step have), mean (of all launches of the key), only trace or only profile.
-- @column kernels           BIGINT   Number of kernels of the trace.
-- @column kernel_ns         BIGINT   Their summed duration, ns.
-- @column launches          BIGINT   Number of launches in the profiles.
-- @column ncu_ns            DOUBLE   Mean duration of the launches, ns, under Nsight Compute; NULL if unknown.
-- @column dram_bytes        DOUBLE   Mean bytes of a launch from and to the memory; NULL if unknown.
-- @column flops             DOUBLE   Mean FLOPs of a launch; NULL if unknown.
-- @column bytes_spread_pct  DOUBLE   Difference between the most and the fewest bytes of a launch in percent of the mean; NULL if unknown.
-- @column flops_spread_pct  DOUBLE   The same of the FLOPs, percent; NULL if unknown.
-- @column grid              VARCHAR  Blocks in x, y and z; NULL if the profile does not have it.
-- @column block             VARCHAR  Threads of a block in x, y and z; NULL if the profile does not have it.
-- @column command           VARCHAR  Begin of a command that profiles the first of the kernels; NULL without kernels, and for collectives, which hang under it.
-- @key    kernel joined kernels kernel_ns launches ncu_ns dram_bytes bytes_spread_pct grid block command
-- @empty  no profile of Nsight Compute is loaded (traceql load TRACE PROFILE.csv), or none passes the filters
-- @chart  none
WITH joined AS (
    SELECT key_id, how, COUNT(*) AS kernels, CAST(SUM(kernel.dur) AS BIGINT) AS kernel_ns
    FROM profiled_kernel
    INNER JOIN kernel ON profiled_kernel.kernel_id = kernel.id
    GROUP BY key_id, how
),
of_kernels AS (
    SELECT
        CASE WHEN kernel_key.arguments IS NULL THEN kernel_key.base ELSE format('{}<{}>', kernel_key.base, kernel_key.arguments) END AS kernel,
        COALESCE(joined.how, CASE WHEN kernel_key.launches = 0 THEN 'only trace' ELSE 'only profile' END) AS joined,
        COALESCE(joined.kernels, kernel_key.kernels) AS kernels,
        COALESCE(joined.kernel_ns, kernel_key.kernel_ns) AS kernel_ns,
        kernel_key.launches, kernel_key.ncu_ns, kernel_key.dram_bytes, kernel_key.flops,
        kernel_key.bytes_spread_pct, kernel_key.flops_spread_pct,
        CAST(kernel_key.grid AS VARCHAR) AS grid,
        CAST(kernel_key.block AS VARCHAR) AS block,
        CASE
            WHEN kernel_key.category <> 'collective'
                THEN format('ncu --kernel-name ''regex:^{}$'' --launch-skip {} --launch-count 1', kernel_key.base, kernel_key.launch_skip)
        END AS command
    FROM kernel_key
    LEFT JOIN joined ON kernel_key.id = joined.key_id
),
profiled_as_one AS (
    SELECT
        format('({})', launch.kind) AS kernel,
        COUNT(*) AS launches,
        AVG(work.dur) AS ncu_ns,
        AVG(work.dram_bytes) AS dram_bytes,
        AVG(work.flops) AS flops,
        100 * (MAX(work.dram_bytes) - MIN(work.dram_bytes)) / NULLIF(AVG(work.dram_bytes), 0) AS bytes_spread_pct,
        100 * (MAX(work.flops) - MIN(work.flops)) / NULLIF(AVG(work.flops), 0) AS flops_spread_pct
    FROM profiled_launch AS launch
    LEFT JOIN profiled_work AS work ON launch.id = work.launch
    WHERE launch.kind <> 'kernel'
    GROUP BY launch.kind
)
SELECT *
FROM (
    FROM of_kernels
    UNION ALL BY NAME
    SELECT *, 'only profile' AS joined, 0 AS kernels, 0 AS kernel_ns
    FROM profiled_as_one
)
WHERE $joined::VARCHAR IS NULL OR joined = $joined::VARCHAR
ORDER BY kernel_ns DESC, ncu_ns DESC NULLS LAST, kernel, grid, block, joined
LIMIT CASE WHEN $limit::BIGINT > 0 THEN $limit::BIGINT END
