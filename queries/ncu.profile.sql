-- One row per kernel that Nsight Compute profiled, with grid and block: its work at the duration under Nsight Compute.
--
-- Use it for a profile that is loaded without a trace. Nsight Compute runs a kernel alone, with fixed
-- clocks and empty caches unless an option says otherwise, so a kernel may take less or more time in a run: with a
-- trace of the same program, ncu.roofline has the same counts at the durations of the trace. Graphs and
-- ranges that were profiled as one are kernels here, called (graph) and (range).
-- @param  limit            BIGINT  = 20            Rows to return.
-- @param  kind             VARCHAR = 'data sheet'  Whose peaks: those of data sheets, or measured ones (traceql experiment peaks).
-- @values kind             'data sheet' measured
-- @column kernel           VARCHAR  Name of the function, with its template arguments where they tell kernels apart.
-- @column launches         BIGINT   Number of profiled launches.
-- @column total_ns         DOUBLE   Their summed duration, ns; NULL if unknown.
-- @column share_pct        DOUBLE   total_ns in percent of all profiled launches.
-- @column mean_ns          DOUBLE   Mean duration of a launch, ns; NULL if unknown.
-- @column dram_bytes       DOUBLE   Mean bytes of a launch from and to the memory; NULL if unknown.
-- @column flops            DOUBLE   Mean FLOPs of a launch; NULL if unknown, as without a metric of the tensor cores.
-- @column intensity        DOUBLE   FLOPs per byte; NULL if unknown.
-- @column achieved_gbps    DOUBLE   Bytes per second, 1e9; NULL if unknown.
-- @column achieved_tflops  DOUBLE   FLOPs per second, 1e12; NULL if unknown.
-- @column memory_pct       DOUBLE   achieved_gbps in percent of the memory's peak; NULL if unknown.
-- @column compute_pct      DOUBLE   achieved_tflops in percent of the peak of the tensor cores; NULL without work on them, or if unknown.
-- @column bound            VARCHAR  Side of the ridge: compute or memory; NULL without work on the tensor cores, or if unknown.
-- @column dtype            VARCHAR  Type of the numbers on the tensor cores, whose peak counts: bf16 (also fp16), fp8, int8 or fp4; NULL without work on them, or of several types.
-- @column peak_tflops      DOUBLE   Peak of the tensor cores, 1e12 per second; NULL if unknown.
-- @column peak_gbps        DOUBLE   Peak of the memory, 1e9 bytes per second; NULL if unknown.
-- @column device_name      VARCHAR  Name of the GPU; NULL if the profile does not have it.
-- @column grid             VARCHAR  Blocks in x, y and z; NULL if the profile does not have it.
-- @column block            VARCHAR  Threads of a block in x, y and z; NULL if the profile does not have it.
-- @key    kernel launches total_ns share_pct mean_ns dram_bytes achieved_gbps memory_pct achieved_tflops compute_pct bound intensity grid
-- @empty  no profile of Nsight Compute is loaded (traceql load PROFILE.csv)
-- @chart  roofline x=intensity y=achieved_tflops color=bound label=kernel size=total_ns dtype=dtype roofs=peak_tflops,peak_gbps
-- @title  Roofline of the profile alone
WITH launched AS (
    SELECT
        CASE launch.kind WHEN 'kernel' THEN COALESCE(parsed_kernel_name.base, launch.name) ELSE format('({})', launch.kind) END
            AS base,
        CASE launch.kind WHEN 'kernel' THEN parsed_kernel_name.arguments END AS arguments,
        launch.grid, launch.block, launch.device_name, work.*
    FROM profiled_launch AS launch
    INNER JOIN profiled_work AS work ON launch.id = work.launch
    LEFT JOIN parsed_kernel_name USING (name)
),
summed AS (
    SELECT
        base, arguments, grid, block, device_name,
        COUNT(*) AS launches,
        SUM(dur ORDER BY launch) AS total_ns,
        AVG(dur ORDER BY launch) AS mean_ns,
        AVG(dram_bytes ORDER BY launch) AS dram_bytes,
        AVG(flops ORDER BY launch) AS flops,
        SUM(flops ORDER BY launch) / NULLIF(SUM(dram_bytes ORDER BY launch) FILTER (flops IS NOT NULL), 0) AS intensity,
        SUM(dram_bytes ORDER BY launch) / NULLIF(SUM(dur ORDER BY launch) FILTER (dram_bytes IS NOT NULL), 0)
            AS achieved_gbps,
        SUM(flops ORDER BY launch) / NULLIF(SUM(dur ORDER BY launch) FILTER (flops IS NOT NULL), 0) / 1000
            AS achieved_tflops,
        CASE WHEN COUNT(DISTINCT dtype) = 1 THEN ANY_VALUE(dtype) END AS dtype
    FROM launched
    GROUP BY base, arguments, grid, block, device_name
),
memory_peak AS (
    SELECT device_name, MAX(hbm_gbps) AS hbm_gbps FROM peak WHERE kind = $kind::VARCHAR GROUP BY device_name
)
SELECT
    CASE WHEN COUNT(*) OVER (PARTITION BY summed.base, summed.grid, summed.block, summed.device_name) > 1
        THEN COALESCE(format('{}<{}>', summed.base, summed.arguments), summed.base)
    ELSE summed.base END AS kernel,
    summed.launches, summed.total_ns,
    100 * summed.total_ns / NULLIF(SUM(summed.total_ns) OVER (), 0) AS share_pct,
    summed.mean_ns, summed.dram_bytes, summed.flops, summed.intensity, summed.achieved_gbps,
    summed.achieved_tflops,
    100 * summed.achieved_gbps / memory_peak.hbm_gbps AS memory_pct,
    100 * summed.achieved_tflops / peak.tflops AS compute_pct,
    CASE
        WHEN summed.intensity * memory_peak.hbm_gbps / 1000 < peak.tflops THEN 'memory'
        WHEN summed.intensity * memory_peak.hbm_gbps / 1000 >= peak.tflops THEN 'compute'
    END AS bound,
    summed.dtype,
    peak.tflops AS peak_tflops,
    memory_peak.hbm_gbps AS peak_gbps,
    summed.device_name,
    CAST(summed.grid AS VARCHAR) AS grid,
    CAST(summed.block AS VARCHAR) AS block
FROM summed
LEFT JOIN memory_peak USING (device_name)
LEFT JOIN peak
    ON summed.device_name = peak.device_name AND summed.dtype = peak.dtype AND peak.kind = $kind::VARCHAR
ORDER BY summed.total_ns DESC NULLS LAST, kernel, summed.grid, summed.block, summed.device_name
LIMIT CASE WHEN $limit::BIGINT > 0 THEN $limit::BIGINT END
