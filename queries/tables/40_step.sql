-- Iterations with what the GPU did for them.

CREATE OR REPLACE TABLE step AS
WITH on_gpu AS (
    SELECT
        step_id,
        MIN(ts) AS gpu_ts,
        MAX(ts + dur) - MIN(ts) AS gpu_dur,
        COUNT(DISTINCT launch_id) FILTER (in_graph) AS graph_launches,
        BOOL_OR(in_graph AND category = 'attention') AS attention_in_graph
    FROM kernel
    GROUP BY step_id
),
counted AS (
    SELECT
        *,
        TRY_CAST(context.requests AS BIGINT) AS context_requests,
        TRY_CAST(context.tokens AS BIGINT) AS context_tokens,
        TRY_CAST(generation.requests AS BIGINT) AS generation_requests,
        TRY_CAST(generation.tokens AS BIGINT) AS generation_tokens
    FROM iteration
)
SELECT
    counted.step_id,
    counted.rank,
    counted.number,
    counted.name,
    counted.ts,
    counted.dur,
    on_gpu.gpu_ts,
    on_gpu.gpu_dur,
    CASE
        WHEN counted.context_requests > 0 AND counted.generation_requests > 0 THEN 'mixed'
        WHEN counted.context_requests > 0 THEN 'prefill'
        WHEN counted.generation_requests > 0 THEN 'decode'
        WHEN counted.context_requests = 0 AND counted.generation_requests = 0 THEN 'idle'
    END AS phase,
    counted.context_requests,
    counted.context_tokens,
    counted.generation_requests,
    counted.generation_tokens,
    CASE
        WHEN on_gpu.step_id IS NULL THEN NULL
        WHEN on_gpu.graph_launches = 0 THEN 'none'
        WHEN on_gpu.attention_in_graph THEN 'full'
        ELSE 'piecewise'
    END AS graph_mode,
    CASE counted.evidence
        WHEN 1 THEN 'execute_context' WHEN 2 THEN 'ProfilerStep' ELSE 'trace'
    END AS source
FROM counted
LEFT JOIN on_gpu USING (step_id)
ORDER BY counted.step_id;

COMMENT ON TABLE step IS 'One row per engine iteration of one rank.';
COMMENT ON COLUMN step.step_id IS 'Unique over all ranks.';
COMMENT ON COLUMN step.rank IS 'Rank that ran it.';
COMMENT ON COLUMN step.number IS 'Position among the steps of its rank, from 0.';
COMMENT ON COLUMN step.name IS 'The annotation as in the file; NULL where the trace is one step.';
COMMENT ON COLUMN step.ts IS 'Start on the host, ns since trace.base_time_ns.';
COMMENT ON COLUMN step.dur IS
    'Duration of the annotation on the host, ns. What is launched after it and before the next step (sampling, sends) still belongs to this step.';
COMMENT ON COLUMN step.gpu_ts IS 'Start of its first kernel, ns since trace.base_time_ns; NULL without kernels.';
COMMENT ON COLUMN step.gpu_dur IS 'From the start of its first kernel to the end of its last, ns.';
COMMENT ON COLUMN step.phase IS
    'prefill (context requests only), decode (generation only), mixed (both) or idle (neither); NULL where the trace does not say.';
COMMENT ON COLUMN step.context_requests IS 'Requests whose prompt is processed.';
COMMENT ON COLUMN step.context_tokens IS 'Prompt tokens processed, over all requests.';
COMMENT ON COLUMN step.generation_requests IS 'Requests that generate.';
COMMENT ON COLUMN step.generation_tokens IS 'Tokens generated, over all requests.';
COMMENT ON COLUMN step.graph_mode IS
    'full (attention inside a graph launch), piecewise (graph launches, attention outside) or none; NULL without kernels.';
COMMENT ON COLUMN step.source IS 'What the step was found by: execute_context, ProfilerStep or trace (the whole trace is one step).';
