-- One row per engine: what its memory on a GPU is used for, and how many requests its KV cache holds.
--
-- Use it to see what tensor parallelism leaves for the KV cache. Weights, KV cache and CUDA graphs are
-- what vLLM logs when it starts (of several ranks the largest): medians of the starts. used_bytes is the
-- most that NVML saw on a GPU of the engine in any point, median of the repeats. What is in use beyond the
-- three is other_bytes: activations, the CUDA context, buffers of NCCL, and whatever else ran on the GPU.
-- @column engine             VARCHAR  Engine.
-- @column gpus               BIGINT   GPUs of the engine.
-- @column starts             BIGINT   Starts of the server whose log was read.
-- @column weights_bytes      DOUBLE   Weights on a GPU, bytes; NULL if not in the logs.
-- @column kv_cache_bytes     DOUBLE   KV cache on a GPU, bytes; NULL if not in the logs.
-- @column cuda_graphs_bytes  DOUBLE   CUDA graphs on a GPU, bytes; NULL if not in the logs.
-- @column other_bytes        DOUBLE   used_bytes less the three; NULL without telemetry, or if one of them is unknown.
-- @column used_bytes         DOUBLE   Memory in use on the fullest GPU, bytes; NULL without telemetry.
-- @column kv_cache_tokens    BIGINT   Tokens that the KV cache of the engine holds, all replicas together.
-- @column longest_request    BIGINT   Prompt and output tokens of the longest request of the experiment.
-- @column longest_requests   BIGINT   How many such requests the KV cache holds at once; parts of blocks do not count.
-- @column start_ns           DOUBLE   Time until the server answered, ns: median of the starts.
-- @column experiment         VARCHAR  Experiment.
-- @column name               VARCHAR  Name in the chart.
-- @key    engine weights_bytes kv_cache_bytes cuda_graphs_bytes other_bytes used_bytes kv_cache_tokens longest_requests starts start_ns
-- @empty  no server started that kept its log; vllm bench latency has none
-- @chart  stacked x=weights_bytes,kv_cache_bytes,cuda_graphs_bytes,other_bytes y=name
-- @title  Memory of a GPU
WITH engine AS (
    SELECT
        experiment_id, engine_key,
        ANY_VALUE(engine) AS engine,
        ANY_VALUE(gpus) AS gpus,
        ANY_VALUE(dp) AS dp
    FROM point
    GROUP BY experiment_id, engine_key
),
longest AS (
    SELECT experiment_id, MAX(prompt_tokens + output_tokens) AS tokens
    FROM point
    WHERE skipped_reason IS NULL
    GROUP BY experiment_id
),
started AS (
    SELECT
        experiment_id, engine_key,
        COUNT(*) AS starts,
        quantile_cont(weights_bytes, 0.5) AS weights_bytes,
        quantile_cont(kv_cache_bytes, 0.5) AS kv_cache_bytes,
        quantile_cont(graph_bytes, 0.5) AS graph_bytes,
        CAST(floor(quantile_cont(kv_cache_tokens, 0.5)) AS BIGINT) AS kv_cache_tokens,
        quantile_cont(dur_ns, 0.5) AS start_ns
    FROM start
    GROUP BY experiment_id, engine_key
),
used AS (
    SELECT point.experiment_id, point.engine_key, MAX(point_value.median) AS used_bytes
    FROM point_value
    INNER JOIN point USING (point_id)
    WHERE point_value.metric = 'memory_used'
    GROUP BY point.experiment_id, point.engine_key
)
SELECT
    engine.engine, engine.gpus, started.starts, started.weights_bytes, started.kv_cache_bytes,
    started.graph_bytes AS cuda_graphs_bytes,
    used.used_bytes - started.weights_bytes - started.kv_cache_bytes - started.graph_bytes AS other_bytes,
    used.used_bytes, started.kv_cache_tokens,
    longest.tokens AS longest_request,
    CAST(engine.dp * ((started.kv_cache_tokens // engine.dp) // longest.tokens) AS BIGINT) AS longest_requests,
    started.start_ns,
    experiment.name AS experiment,
    CASE
        WHEN COUNT(DISTINCT engine.experiment_id) OVER (PARTITION BY engine.engine) > 1 THEN experiment.name || ': ' ELSE ''
    END || engine.engine AS name
FROM started
INNER JOIN engine USING (experiment_id, engine_key)
INNER JOIN experiment USING (experiment_id)
INNER JOIN longest USING (experiment_id)
LEFT JOIN used USING (experiment_id, engine_key)
ORDER BY engine.experiment_id, engine.gpus, engine.engine
