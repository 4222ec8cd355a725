-- One row per step with work: the kind of step that the host is blamed for together.
--
-- Steps without graphs are of one kind, whatever their phase, because they have one cause. Steps
-- without work (phase idle) are left out: there, a GPU waits for requests or for its turn in the
-- pipeline. Steps whose graph replays were not recorded kernel by kernel have no graph mode: it is called
-- unrecorded.
-- @needs  step
SELECT
    step_id, rank, number, phase, graph_mode, source,
    context_tokens + generation_tokens AS tokens,
    CASE WHEN graph_mode = 'none' THEN 'none' ELSE concat_ws(' ', phase, COALESCE(graph_mode, 'unrecorded')) END AS kind
FROM step
WHERE gpu_dur IS NOT NULL AND phase IS DISTINCT FROM 'idle'
