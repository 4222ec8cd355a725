-- One row per phase, layer and role: GPU time.
--
-- Use it to see which part of which layer takes the time. Durations are summed across ranks, steps
-- and streams. share_pct is relative to the GPU time of all layers in the phase.
-- @param  rank      BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase     VARCHAR = NULL  Only this phase; all by default.
-- @values phase     prefill decode mixed idle
-- @column phase     VARCHAR  Phase of the step: prefill, decode, mixed or idle.
-- @column layer     BIGINT   Model layer, from 0.
-- @column role      VARCHAR  Part of the model.
-- @column calls     BIGINT   Number of kernels.
-- @column total_ns  BIGINT   Total duration, ns.
-- @column mean_ns   DOUBLE   Mean duration of a kernel, ns.
-- @column share_pct DOUBLE   Share of the GPU time of all layers in the phase, percent.
-- @empty  no kernel was attributed to a layer; traceql check says why
-- @chart  heatmap x=layer y=role color=total_ns
-- @title  GPU time by layer and role
SELECT
    step.phase,
    kernel.layer,
    kernel.role,
    COUNT(*) AS calls,
    CAST(SUM(kernel.dur) AS BIGINT) AS total_ns,
    AVG(kernel.dur) AS mean_ns,
    100.0 * SUM(kernel.dur) / SUM(SUM(kernel.dur)) OVER (PARTITION BY step.phase) AS share_pct
FROM kernel
INNER JOIN step USING (step_id)
WHERE
    kernel.layer IS NOT NULL
    AND ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
    AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
GROUP BY step.phase, kernel.layer, kernel.role
ORDER BY step.phase, kernel.layer, total_ns DESC, kernel.role
