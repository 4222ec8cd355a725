-- At most one row: the types of numbers that vLLM was told to use, from the run directory.
--
-- The results of the engine's own defaults come first, then what it was told.
-- @kind   scratch
-- @scope  run
-- @needs  run_file
-- @column dtype         VARCHAR  Type of activations and of weights that are not quantized; NULL for that of the configuration.
-- @column quantization  VARCHAR  Method that quantizes the weights; NULL for none, or that of the configuration.
-- @column kv_cache      VARCHAR  Type of the KV cache; auto is that of the activations.
SELECT
    NULLIF(COALESCE(
        document ->> '$.engine_config.model_config.dtype', document ->> '$.engine_arguments.dtype'
    ), 'auto') AS dtype,
    COALESCE(
        document ->> '$.engine_config.model_config.quantization', document ->> '$.engine_arguments.quantization'
    ) AS quantization,
    COALESCE(
        document ->> '$.engine_config.cache_config.cache_dtype', document ->> '$.engine_arguments.kv_cache_dtype', 'auto'
    ) AS kv_cache
FROM run_file
ORDER BY path
LIMIT 1
