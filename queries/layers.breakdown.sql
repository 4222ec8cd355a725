-- One row per phase, layer and role: the GPU time it took.
--
-- Sums over ranks, steps and streams. share_pct is of all GPU time in layers of that phase.
-- @param  rank      BIGINT  = NULL  This rank only; all where NULL.
-- @param  phase     VARCHAR = NULL  This phase only; all where NULL.
-- @values phase     prefill decode mixed idle
-- @column phase     VARCHAR  Phase of the step: prefill, decode, mixed or idle.
-- @column layer     BIGINT   Model layer, from 0.
-- @column role      VARCHAR  Part of the layer.
-- @column calls     BIGINT   Kernels.
-- @column total_ns  BIGINT   Summed duration, ns.
-- @column mean_ns   DOUBLE   Per kernel, ns.
-- @column share_pct DOUBLE   Of the phase's GPU time in layers, percent.
-- @empty  no layers were recognised: traceql check says why
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
