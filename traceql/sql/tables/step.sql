-- One row per step: one engine iteration of one rank.
--
-- Prefill processes prompts, decode generates tokens.
-- @schema main
-- @scope  rank
-- @needs  classified_kernel, iteration, launch
-- @column step_id              BIGINT   Id of the step, unique across all ranks.
-- @column rank                 BIGINT   Rank that ran it.
-- @column number               BIGINT   Position among the steps of its rank, from 0.
-- @column name                 VARCHAR  Annotation or Python frame that the step was found by, as in the file; NULL if there is none.
-- @column ts                   BIGINT   Start on the host, ns since the run's first event. Of steps that only the GPU shows, start of the first call that launched one of their kernels, or of the first kernel if the trace has no such calls.
-- @column dur                  BIGINT   Duration of the annotation on the host, ns; of steps that only the GPU shows, from ts to the last such start. What is launched after it and before the next step (sampling, sends) still belongs to this step.
-- @column gpu_ts               BIGINT   Start of its first kernel, ns since the run's first event; NULL without kernels.
-- @column gpu_dur              BIGINT   From the start of its first kernel to the end of its last kernel, ns; NULL without kernels.
-- @column phase                VARCHAR  prefill (only requests with prompt tokens), decode (only requests that generate), mixed (both) or idle (neither); NULL if unknown.
-- @column context_requests     BIGINT   Number of requests whose prompt is processed.
-- @column context_tokens       BIGINT   Prompt tokens processed, of all requests together.
-- @column generation_requests  BIGINT   Number of requests that generate tokens.
-- @column generation_tokens    BIGINT   Tokens generated, of all requests together.
-- @column graph_mode           VARCHAR  full (attention ran inside a graph replay), piecewise (there were graph replays, and attention ran outside them) or none (no graph replays); NULL without kernels, or if those of its graph replays or the calls that launched them were not recorded.
-- @column source               VARCHAR  How the step was found: by an annotation of an engine (execute_context: vLLM, tensorrt_llm, sglang, atom), by ProfilerStep (annotation of PyTorch's profiler), by Python frames (sglang_frame: forward_extend and forward_decode of SGLang; module: calls of the whole model), by forward_pass (layers in the order of kernels), or trace (the whole trace is one step). docs/engines.md explains them. Annotations are those of the host, or else of the GPU.
WITH on_gpu AS (
    SELECT
        step_id,
        MIN(ts) AS gpu_ts,
        MAX(ts + dur) - MIN(ts) AS gpu_dur,
        COUNT(launch_id) AS launched,
        COUNT(DISTINCT launch_id) FILTER (in_graph) AS graph_launches,
        BOOL_OR(in_graph AND category = 'attention') AS attention_in_graph,
        BOOL_OR(category = 'graph') AS has_unrecorded_graphs
    FROM classified_kernel
    GROUP BY step_id
),
graph_call AS (SELECT DISTINCT step_id FROM launch WHERE name LIKE '%GraphLaunch%')
SELECT
    iteration.step_id, iteration.rank, iteration.number, iteration.name, iteration.ts, iteration.dur,
    on_gpu.gpu_ts, on_gpu.gpu_dur,
    CASE
        WHEN iteration.context_requests > 0 AND iteration.generation_requests > 0 THEN 'mixed'
        WHEN iteration.context_requests > 0 THEN 'prefill'
        WHEN iteration.generation_requests > 0 THEN 'decode'
        WHEN iteration.context_requests = 0 AND iteration.generation_requests = 0 THEN 'idle'
        ELSE iteration.phase
    END AS phase,
    iteration.context_requests, iteration.context_tokens, iteration.generation_requests,
    iteration.generation_tokens,
    CASE
        WHEN on_gpu.step_id IS NULL OR on_gpu.has_unrecorded_graphs THEN NULL
        WHEN iteration.gpu_ts IS NOT NULL AND on_gpu.launched = 0 THEN NULL  -- calls were not recorded
        WHEN on_gpu.graph_launches = 0 AND graph_call.step_id IS NULL THEN 'none'
        WHEN on_gpu.graph_launches = 0 THEN NULL  -- of what was replayed, nothing is in the file
        WHEN on_gpu.attention_in_graph THEN 'full'
        ELSE 'piecewise'
    END AS graph_mode,
    iteration.source
FROM iteration
LEFT JOIN on_gpu USING (step_id)
LEFT JOIN graph_call ON iteration.step_id = graph_call.step_id
ORDER BY iteration.step_id
