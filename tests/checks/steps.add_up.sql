-- One row per step and device whose parts do not add up to its GPU span, or are negative.
SELECT
    step_time.rank,
    step_time.step_id,
    step_time.device,
    CAST(SUM(step_time.ns) AS BIGINT) AS parts_ns,
    ANY_VALUE(step.gpu_dur) AS gpu_dur
FROM internal.step_time
INNER JOIN step USING (step_id)
GROUP BY step_time.rank, step_time.step_id, step_time.device
HAVING SUM(step_time.ns) <> ANY_VALUE(step.gpu_dur) OR MIN(step_time.ns) < 0
ORDER BY ALL
