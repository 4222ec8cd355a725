-- One row per phase and role with FLOPs and bytes: its place under the roofline.
--
-- Use it to see what bounds each part of the model, and how far it is from the roof. Left of the
-- ridge, a role is bound by the memory and more tokens at a time are nearly free; right of it, by the
-- matrix units. Roofs are those of the data sheet and, where they were measured (traceql experiment peaks),
-- the measured ones, never mixed. Roofline: Williams et al., CACM 52(4), 2009.
-- @param  rank             BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase            VARCHAR = NULL  Only this phase; all by default.
-- @values phase            prefill decode mixed idle
-- @column phase            VARCHAR  Phase of the steps.
-- @column role             VARCHAR  Part of the model.
-- @column dtype            VARCHAR  Whose peak counts: bf16 (also fp16), fp8, int8 or fp4.
-- @column intensity        DOUBLE   Useful FLOPs per compulsory byte.
-- @column achieved_tflops  DOUBLE   Useful FLOPs per second, 1e12.
-- @column achieved_gbps    DOUBLE   Compulsory bytes per second, 1e9.
-- @column ceiling_pct      DOUBLE   achieved_tflops in percent of the roof of the data sheet at this intensity; NULL if unknown.
-- @column bound            VARCHAR  Side of the ridge: compute or memory.
-- @column total_ns         BIGINT   Time of its kernels, ns.
-- @column peak_tflops      DOUBLE   Flat roof of the data sheet, 1e12 per second; NULL if unknown.
-- @column peak_gbps        DOUBLE   Slope of the roof of the data sheet, 1e9 bytes per second; NULL if unknown.
-- @column measured_tflops  DOUBLE   Measured flat roof, 1e12 per second; NULL if not measured.
-- @column measured_gbps    DOUBLE   Measured slope, 1e9 bytes per second; NULL if not measured.
-- @key    phase role dtype intensity achieved_tflops achieved_gbps ceiling_pct bound total_ns
-- @empty  no cost is known (efficiency.roles says what is missing), or none passes the filters
-- @chart  roofline x=intensity y=achieved_tflops color=phase label=role size=total_ns dtype=dtype roofs=peak_tflops,peak_gbps measured=measured_tflops,measured_gbps
-- @title  Roofline
WITH chosen AS (
    SELECT step_id, phase
    FROM step
    WHERE
        ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR phase = $phase::VARCHAR)
),
done AS (
    SELECT
        chosen.phase, cost.role, cost.dtype, trace.device_name,
        SUM(cost.flops) AS flops,
        SUM(cost.hbm_bytes) AS bytes,
        SUM(cost.dur_ns) AS total_ns
    FROM cost
    INNER JOIN chosen USING (step_id)
    INNER JOIN trace USING (rank)
    WHERE cost.flops > 0 AND cost.hbm_bytes > 0
    GROUP BY chosen.phase, cost.role, cost.dtype, trace.device_name
),
roofed AS (
    SELECT
        done.*,
        sheet.tflops AS peak_tflops,
        sheet.hbm_gbps AS peak_gbps,
        measured.tflops AS measured_tflops,
        measured.hbm_gbps AS measured_gbps,
        done.flops / done.bytes AS intensity,
        done.flops / done.total_ns / 1000 AS achieved_tflops
    FROM done
    LEFT JOIN peak AS sheet
        ON done.device_name = sheet.device_name AND done.dtype = sheet.dtype AND sheet.kind = 'data sheet'
    LEFT JOIN peak AS measured
        ON done.device_name = measured.device_name AND done.dtype = measured.dtype AND measured.kind = 'measured'
)
SELECT
    phase, role, dtype, intensity, achieved_tflops,
    bytes / total_ns AS achieved_gbps,
    CASE
        WHEN peak_tflops + peak_gbps IS NOT NULL
            THEN 100 * achieved_tflops / LEAST(peak_tflops, intensity * peak_gbps / 1000)
    END AS ceiling_pct,
    CASE
        WHEN intensity * peak_gbps / 1000 < peak_tflops THEN 'memory'
        WHEN intensity * peak_gbps / 1000 >= peak_tflops THEN 'compute'
    END AS bound,
    CAST(total_ns AS BIGINT) AS total_ns,
    peak_tflops, peak_gbps, measured_tflops, measured_gbps
FROM roofed
ORDER BY phase, total_ns DESC, role
