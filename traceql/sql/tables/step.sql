-- One row per step: one engine iteration of one rank, on one of its devices.
--
-- Prefill processes prompts, decode generates tokens.
--
-- If the rank has several devices, an iteration has a row for each device that it has kernels on, and always
-- one for the first device; all have the same number.
--
-- If the host runs ahead, first kernels of a step (copies of inputs, on another stream) run long before the last kernel
-- of the step before. Then the GPU times of the steps of that device follow each other, so that they add up to at most its
-- GPU span: a step begins on the GPU when all steps before it have ended. A step whose last kernel ends
-- before those of earlier steps takes no time of its own: gpu_dur is 0 at the end of its last kernel. The host counts
-- as running ahead if steps of the device overlap by more than 2% of the shorter one. Less is the copy of results of a step
-- beside the start of the next one (0.6% at most in recordings of vLLM, where training has 40%): it stays in both.
-- @schema main
-- @scope  rank
-- @needs  classified_kernel, iteration, launch
-- @column step_id              BIGINT   Id of the step, unique across all ranks and devices.
-- @column rank                 BIGINT   Rank that ran it.
-- @column device               BIGINT   Number of the device on its machine; NULL if the rank has no GPU activity.
-- @column number               BIGINT   Position of the iteration among those of its rank, from 0.
-- @column name                 VARCHAR  Annotation or Python frame that the step was found by, as in the file; NULL if there is none.
-- @column ts                   BIGINT   Start on the host, ns since the run's first event. Of steps that only the GPU shows, start of the first call that launched one of their kernels, or of the first kernel if the trace has no such calls.
-- @column dur                  BIGINT   Duration of the annotation on the host, ns; of steps that only the GPU shows, from ts to the last such start. What is launched after it and before the next step (sampling, sends) still belongs to this step.
-- @column gpu_ts               BIGINT   Start of its first kernel; where the host runs ahead, the end of the steps before it on the device if that is later, ns since the run's first event; NULL without kernels.
-- @column gpu_dur              BIGINT   From gpu_ts to the end of its last kernel, ns; NULL without kernels.
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
        MIN(ts) AS first_ts,
        MAX(ts + dur) AS end_ts,
        COUNT(launch_id) AS launched,
        COUNT(DISTINCT launch_id) FILTER (in_graph) AS graph_launches,
        BOOL_OR(in_graph AND category = 'attention') AS attention_in_graph,
        BOOL_OR(category = 'graph') AS has_unrecorded_graphs
    FROM classified_kernel
    GROUP BY step_id
),
graph_call AS (SELECT DISTINCT step_id FROM launch WHERE name LIKE '%GraphLaunch%'),
placed AS (
    SELECT
        step_id, iteration.rank, iteration.device, on_gpu.first_ts, on_gpu.end_ts,
        MAX(on_gpu.end_ts) OVER (
            PARTITION BY iteration.rank, iteration.device ORDER BY iteration.number
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS end_before_ts,
        LEAST(on_gpu.end_ts - on_gpu.first_ts, LAG(on_gpu.end_ts - on_gpu.first_ts) OVER (
            PARTITION BY iteration.rank, iteration.device ORDER BY iteration.number
        )) AS shorter_ns
    FROM on_gpu
    INNER JOIN iteration USING (step_id)
),
runs_ahead AS (
    SELECT DISTINCT rank, device FROM placed WHERE (end_before_ts - first_ts) * 50 > shorter_ns
),
-- Where the host runs ahead, the GPU time of a step begins after that of all steps before it.
span AS (
    SELECT
        placed.step_id,
        CASE
            WHEN runs_ahead.rank IS NULL THEN placed.first_ts
            ELSE LEAST(placed.end_ts, GREATEST(placed.first_ts, placed.end_before_ts))
        END AS begin_ts,
        placed.end_ts - begin_ts AS gpu_dur
    FROM placed
    LEFT JOIN runs_ahead USING (rank, device)
)
SELECT
    iteration.step_id, iteration.rank, iteration.device, iteration.number, iteration.name,
    iteration.ts, iteration.dur,
    span.begin_ts AS gpu_ts,
    span.gpu_dur,
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
LEFT JOIN span ON iteration.step_id = span.step_id
LEFT JOIN graph_call ON iteration.step_id = graph_call.step_id
WHERE iteration.is_first OR on_gpu.step_id IS NOT NULL
ORDER BY iteration.step_id
