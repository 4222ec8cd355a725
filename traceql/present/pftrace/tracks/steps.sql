-- One slice per step: its time on the GPU (step.gpu_ts and gpu_dur), or its time on the host if it has
-- no kernels.
SELECT
    rank,
    'Steps' || COALESCE(' · GPU ' || device_if_several(rank, device), '') AS track,
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
    step_id, device, number, phase, context_requests, context_tokens, generation_requests,
    generation_tokens, graph_mode,
    'SELECT * FROM step WHERE step_id = ' || step_id AS sql
FROM step
ORDER BY rank, track, 3, 4 DESC, step_id
