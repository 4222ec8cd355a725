-- One row per phase and role: what each part of the model cost.
--
-- Sums over ranks, layers, steps and streams; roles outside layers (embed, lm_head, sample ...) are
-- there too. role is NULL for what could not be attributed.
-- @param  rank      BIGINT  = NULL  This rank only; all where NULL.
-- @param  phase     VARCHAR = NULL  This phase only; all where NULL.
-- @values phase     prefill decode mixed idle
-- @column phase     VARCHAR  Phase of the step: prefill, decode, mixed or idle.
-- @column role      VARCHAR  Part of the model.
-- @column calls     BIGINT   Kernels.
-- @column layers    BIGINT   Layers that have it; 0 outside layers.
-- @column total_ns  BIGINT   Summed duration, ns.
-- @column mean_ns   DOUBLE   Per kernel, ns.
-- @column share_pct DOUBLE   Of the phase's GPU time, percent.
-- @empty  no layers were recognised: traceql check says why
-- @chart  bar x=total_ns y=role color=phase
-- @title  GPU time by role
SELECT
    step.phase,
    kernel.role,
    COUNT(*) AS calls,
    COUNT(DISTINCT kernel.layer) AS layers,
    CAST(SUM(kernel.dur) AS BIGINT) AS total_ns,
    AVG(kernel.dur) AS mean_ns,
    100.0 * SUM(kernel.dur) / SUM(SUM(kernel.dur)) OVER (PARTITION BY step.phase) AS share_pct
FROM kernel
INNER JOIN step USING (step_id)
WHERE
    ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
    AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
GROUP BY step.phase, kernel.role
ORDER BY step.phase, total_ns DESC, kernel.role
