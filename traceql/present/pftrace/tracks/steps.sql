-- One slice per step: from its first kernel to its last one, or its time on the host if it has no
-- kernels.
SELECT
    rank,
    'Steps' AS track,
    COALESCE(gpu_ts, ts) AS ts,
    COALESCE(gpu_dur, dur) AS dur,
    'step' AS cat,
    CASE phase
        WHEN 'prefill' THEN 'prefill · ' || context_tokens || ' tokens'
        WHEN 'decode' THEN 'decode · ' || generation_tokens || ' tokens'
        WHEN 'mixed' THEN 'mixed · ' || context_tokens || ' + ' || generation_tokens || ' tokens'
        WHEN 'idle' THEN 'idle'
        ELSE COALESCE(name, 'whole trace')
    END AS name,
    phase AS colour,
    step_id, number, phase, context_requests, context_tokens, generation_requests,
    generation_tokens, graph_mode,
    'SELECT * FROM step WHERE step_id = ' || step_id AS sql
FROM step
ORDER BY rank, 3, 4 DESC, step_id
