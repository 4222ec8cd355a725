-- One row per step with work: the kind of step that the host is blamed for together.
--
-- Steps without graphs are of one kind, whatever their phase, because they have one cause. Steps
-- without work (phase idle) are left out: there, a GPU waits for requests or for its turn in the
-- pipeline.
-- @needs  step, step_kind_name
SELECT
    step_id,
    rank,
    number,
    phase,
    graph_mode,
    source,
    context_tokens + generation_tokens AS tokens,
    step_kind_name(phase, graph_mode) AS kind
FROM step
WHERE gpu_dur IS NOT NULL AND phase IS DISTINCT FROM 'idle'
