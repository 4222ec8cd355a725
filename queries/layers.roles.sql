-- One row per phase and role: GPU time of each part of the model.
--
-- Use it to see what the parts of the model cost. Durations are summed across ranks, layers, steps
-- and streams. Roles outside layers (embed, lm_head, sample ...) are included. role is NULL for
-- kernels that could not be attributed.
-- @param  rank      BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase     VARCHAR = NULL  Only this phase; all by default.
-- @values phase     prefill decode mixed idle
-- @column phase     VARCHAR  Phase of the step: prefill, decode, mixed or idle.
-- @column role      VARCHAR  Part of the model; NULL if not attributed.
-- @column calls     BIGINT   Number of kernels.
-- @column layers    BIGINT   Number of layers that have the role; 0 outside layers.
-- @column total_ns  BIGINT   Total duration, ns.
-- @column mean_ns   DOUBLE   Mean duration of a kernel, ns.
-- @column share_pct DOUBLE   Share of the GPU time of the phase, percent.
-- @empty  no kernel belongs to a step; traceql check says why
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
