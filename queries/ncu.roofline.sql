-- One row per kernel, phase and role with counters of Nsight Compute: bytes and FLOPs at the trace's own duration.
--
-- Use it to see how near a kernel is to the roof with what it really moves and computes. Bytes and
-- FLOPs are those that Nsight Compute counted; the time is that of the trace, because Nsight Compute
-- runs a kernel alone, mostly with fixed clocks. It also empties the caches: a small kernel may have
-- found in the L2 cache what it counted as read from the memory. Above 100% means that.
-- @param  limit            BIGINT  = 20            Rows to return.
-- @param  rank             BIGINT  = NULL          Only this rank; all ranks by default.
-- @param  phase            VARCHAR = NULL          Only this phase; all by default.
-- @param  role             VARCHAR = NULL          Only this role, such as o_proj.
-- @param  kind             VARCHAR = 'data sheet'  Whose peaks: those of data sheets, or measured ones (traceql experiment peaks).
-- @values phase            prefill decode mixed idle
-- @values kind             'data sheet' measured
-- @column kernel           VARCHAR  Name of the function, with its template arguments where they tell kernels apart.
-- @column role             VARCHAR  Part of the model; NULL if unknown.
-- @column phase            VARCHAR  Phase of the steps; NULL if unknown.
-- @column calls            BIGINT   Number of kernels of the trace.
-- @column total_ns         BIGINT   Their summed duration in the trace, ns.
-- @column mean_ns          DOUBLE   Mean duration in the trace, ns.
-- @column ncu_ns           DOUBLE   Mean duration under Nsight Compute, ns; NULL if unknown.
-- @column dram_bytes       DOUBLE   Bytes of a call that went from and to the memory, counted; NULL if unknown.
-- @column expected_bytes   DOUBLE   Compulsory bytes of a call: weights, KV cache and large activations (cost.hbm_bytes); NULL if unknown, or if it is not the longest kernel of its role.
-- @column flops            DOUBLE   FLOPs of a call, counted; NULL if unknown, as without a metric of the tensor cores.
-- @column tensor_flops     DOUBLE   FLOPs of a call on the tensor cores; NULL if unknown.
-- @column intensity        DOUBLE   FLOPs per byte; NULL if unknown.
-- @column achieved_gbps    DOUBLE   Bytes per second in the trace, 1e9; NULL if unknown.
-- @column achieved_tflops  DOUBLE   FLOPs per second in the trace, 1e12; NULL if unknown.
-- @column memory_pct       DOUBLE   achieved_gbps in percent of the memory's peak; NULL if unknown.
-- @column compute_pct      DOUBLE   achieved_tflops in percent of the peak of the tensor cores; NULL without work on them, or if unknown.
-- @column bound            VARCHAR  Side of the ridge: compute or memory; NULL without work on the tensor cores, or if unknown.
-- @column dtype            VARCHAR  Type of the numbers on the tensor cores, whose peak counts: bf16 (also fp16), fp8, int8 or fp4; NULL without work on them, or of several types.
-- @column peak_tflops      DOUBLE   Peak of the tensor cores, 1e12 per second; NULL if unknown.
-- @column peak_gbps        DOUBLE   Peak of the memory, 1e9 bytes per second; NULL if unknown.
-- @column how              VARCHAR  How the launches are known: order, range or mean (kernel_match.how).
-- @column launches         BIGINT   Launches of this name, grid and block in the profiles.
-- @column bytes_spread_pct DOUBLE   Of a mean: difference between the most and the fewest bytes of these launches in percent of the mean; NULL otherwise.
-- @column grid             VARCHAR  Blocks in x, y and z.
-- @column block            VARCHAR  Threads of a block in x, y and z.
-- @key    kernel role phase calls mean_ns ncu_ns dram_bytes expected_bytes achieved_gbps memory_pct achieved_tflops compute_pct bound bytes_spread_pct intensity how
-- @empty  no kernel of a trace that passes the filters has counters: ncu.joined says which have, and ncu.profile shows a profile without a trace
-- @chart  roofline x=intensity y=achieved_tflops color=phase label=role size=total_ns dtype=dtype roofs=peak_tflops,peak_gbps
-- @title  Roofline by counters
WITH counted AS (
    SELECT
        profiled_kernel.*, kernel.dur, kernel.role, kernel.step_id, kernel.layer, step.phase,
        trace.device_name
    FROM profiled_kernel
    INNER JOIN kernel ON profiled_kernel.kernel_id = kernel.id
    INNER JOIN trace ON kernel.rank = trace.rank
    LEFT JOIN step USING (step_id)
    WHERE
        ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
        AND ($role::VARCHAR IS NULL OR kernel.role = $role::VARCHAR)
),
main_kernel AS (
    SELECT rank, step_id, layer, role, arg_max(id, dur) AS kernel_id
    FROM kernel
    WHERE role IS NOT NULL AND EXISTS (FROM profiled_kernel)
    GROUP BY rank, step_id, layer, role
),
expected AS (
    SELECT main_kernel.kernel_id, cost.hbm_bytes
    FROM main_kernel
    INNER JOIN cost
        ON main_kernel.rank = cost.rank
        AND main_kernel.step_id = cost.step_id
        AND main_kernel.role = cost.role
        AND main_kernel.layer IS NOT DISTINCT FROM cost.layer
),
summed AS (
    SELECT
        counted.key_id, counted.role, counted.phase, counted.device_name,
        COUNT(*) AS calls,
        SUM(counted.dur) AS total_ns,
        AVG(counted.ncu_ns) AS ncu_ns,
        AVG(counted.dram_bytes) AS dram_bytes,
        AVG(expected.hbm_bytes) AS expected_bytes,
        AVG(counted.flops) AS flops,
        AVG(counted.tensor_flops) AS tensor_flops,
        SUM(counted.flops) / NULLIF(SUM(counted.dram_bytes) FILTER (counted.flops IS NOT NULL), 0) AS intensity,
        SUM(counted.dram_bytes) / NULLIF(SUM(counted.dur) FILTER (counted.dram_bytes IS NOT NULL), 0) AS achieved_gbps,
        SUM(counted.flops) / NULLIF(SUM(counted.dur) FILTER (counted.flops IS NOT NULL), 0) / 1000 AS achieved_tflops,
        MAX(counted.dtype) AS dtype,
        MIN(counted.how) AS how
    FROM counted
    LEFT JOIN expected USING (kernel_id)
    GROUP BY counted.key_id, counted.role, counted.phase, counted.device_name
),
memory_peak AS (
    SELECT device_name, MAX(hbm_gbps) AS hbm_gbps FROM peak WHERE kind = $kind::VARCHAR GROUP BY device_name
)
SELECT
    CASE WHEN kernel_key.arguments IS NULL THEN kernel_key.base ELSE format('{}<{}>', kernel_key.base, kernel_key.arguments) END AS kernel,
    summed.role, summed.phase, summed.calls,
    CAST(summed.total_ns AS BIGINT) AS total_ns,
    summed.total_ns / summed.calls AS mean_ns,
    summed.ncu_ns, summed.dram_bytes, summed.expected_bytes, summed.flops, summed.tensor_flops,
    summed.intensity, summed.achieved_gbps, summed.achieved_tflops,
    100 * summed.achieved_gbps / memory_peak.hbm_gbps AS memory_pct,
    100 * summed.achieved_tflops / peak.tflops AS compute_pct,
    CASE
        WHEN summed.intensity * memory_peak.hbm_gbps / 1000 < peak.tflops THEN 'memory'
        WHEN summed.intensity * memory_peak.hbm_gbps / 1000 >= peak.tflops THEN 'compute'
    END AS bound,
    summed.dtype,
    peak.tflops AS peak_tflops,
    memory_peak.hbm_gbps AS peak_gbps,
    summed.how, kernel_key.launches,
    CASE WHEN summed.how = 'mean' THEN kernel_key.bytes_spread_pct END AS bytes_spread_pct,
    CAST(kernel_key.grid AS VARCHAR) AS grid,
    CAST(kernel_key.block AS VARCHAR) AS block
FROM summed
INNER JOIN kernel_key ON summed.key_id = kernel_key.id
LEFT JOIN memory_peak USING (device_name)
LEFT JOIN peak
    ON summed.device_name = peak.device_name AND summed.dtype = peak.dtype AND peak.kind = $kind::VARCHAR
ORDER BY total_ns DESC, kernel, grid, block, role, phase
LIMIT CASE WHEN $limit::BIGINT > 0 THEN $limit::BIGINT END
