-- One row: the engine configuration, the environment and the parallel layout in run.json; NULL where it has none.
--
-- Several run directories of one database are one run: the first one counts.
-- @kind   scratch
-- @scope  run
-- @needs  integer_at, run
-- @column has_run_json           BOOLEAN  Whether there is a run.json.
-- @column has_config             BOOLEAN  Whether it has the engine configuration.
-- @column vllm_version           VARCHAR  Version of vLLM.
-- @column enforce_eager          BOOLEAN  model_config.enforce_eager.
-- @column cudagraph_mode         VARCHAR  compilation_config.cudagraph_mode, such as NONE or FULL_AND_PIECEWISE.
-- @column compilation_mode       BIGINT   compilation_config.mode; 0 is without torch.compile.
-- @column capture_sizes          BIGINT[] compilation_config.cudagraph_capture_sizes, ascending.
-- @column max_capture_size       BIGINT   The largest captured size.
-- @column sets_capture_sizes     BOOLEAN  Whether the user gave the list of sizes.
-- @column max_num_batched_tokens BIGINT   scheduler_config.max_num_batched_tokens.
-- @column max_num_seqs           BIGINT   scheduler_config.max_num_seqs.
-- @column async_scheduling       BOOLEAN  scheduler_config.async_scheduling.
-- @column long_prefill_threshold BIGINT   scheduler_config.long_prefill_token_threshold.
-- @column speculation            VARCHAR  speculative_config.method; NULL without speculation.
-- @column drafted_tokens         BIGINT   speculative_config.num_speculative_tokens.
-- @column dtype                  VARCHAR  model_config.dtype without torch, such as bfloat16.
-- @column kv_cache_bytes         BIGINT   cache_config.kv_cache_memory_bytes.
-- @column gpu_memory_utilization DOUBLE   cache_config.gpu_memory_utilization.
-- @column kv_cache_dtype         VARCHAR  cache_config.cache_dtype.
-- @column prefix_caching         BOOLEAN  cache_config.enable_prefix_caching.
-- @column disables_custom_all_reduce BOOLEAN parallel_config.disable_custom_all_reduce.
-- @column tp                     BIGINT   Tensor-parallel size.
-- @column pp                     BIGINT   Pipeline-parallel size.
-- @column dp                     BIGINT   Data-parallel size.
-- @column ep                     BOOLEAN  Whether experts are spread over the ranks.
-- @column environment            JSON     Environment of the engine.
-- @column config                 JSON     The engine configuration.
WITH found AS (
    SELECT
        document,
        document -> '$.engine_config' AS config,
        run.vllm_version, run.tp, run.pp, run.dp, run.ep
    FROM run
    ORDER BY run.run
    LIMIT 1
)
SELECT
    found.document IS NOT NULL AS has_run_json,
    COALESCE(json_type(found.config) = 'OBJECT', FALSE) AS has_config,
    found.vllm_version,
    TRY_CAST(config ->> '$.model_config.enforce_eager' AS BOOLEAN) AS enforce_eager,
    config ->> '$.compilation_config.cudagraph_mode' AS cudagraph_mode,
    integer_at(config, '$.compilation_config.mode') AS compilation_mode,
    list_sort(TRY_CAST(config -> '$.compilation_config.cudagraph_capture_sizes' AS BIGINT[])) AS capture_sizes,
    COALESCE(list_max(capture_sizes), integer_at(config, '$.compilation_config.max_cudagraph_capture_size')) AS max_capture_size,
    COALESCE(
        json_type(document -> '$.engine_arguments.cudagraph_capture_sizes') = 'ARRAY'
        OR json_type(document -> '$.engine_arguments.compilation_config.cudagraph_capture_sizes') = 'ARRAY',
        FALSE
    ) AS sets_capture_sizes,
    integer_at(config, '$.scheduler_config.max_num_batched_tokens') AS max_num_batched_tokens,
    integer_at(config, '$.scheduler_config.max_num_seqs') AS max_num_seqs,
    TRY_CAST(config ->> '$.scheduler_config.async_scheduling' AS BOOLEAN) AS async_scheduling,
    integer_at(config, '$.scheduler_config.long_prefill_token_threshold') AS long_prefill_threshold,
    config ->> '$.speculative_config.method' AS speculation,
    integer_at(config, '$.speculative_config.num_speculative_tokens') AS drafted_tokens,
    replace(config ->> '$.model_config.dtype', 'torch.', '') AS dtype,
    integer_at(config, '$.cache_config.kv_cache_memory_bytes') AS kv_cache_bytes,
    TRY_CAST(config ->> '$.cache_config.gpu_memory_utilization' AS DOUBLE) AS gpu_memory_utilization,
    config ->> '$.cache_config.cache_dtype' AS kv_cache_dtype,
    TRY_CAST(config ->> '$.cache_config.enable_prefix_caching' AS BOOLEAN) AS prefix_caching,
    TRY_CAST(config ->> '$.parallel_config.disable_custom_all_reduce' AS BOOLEAN) AS disables_custom_all_reduce,
    found.tp, found.pp, found.dp, found.ep,
    document -> '$.environment' AS environment,
    config
FROM (SELECT 1) AS one
LEFT JOIN found ON TRUE
