-- One row: settings of the engine and the profiler in run.json; NULL where it has none.
-- @needs  integer_at, run
SELECT
    ANY_VALUE(CASE document -> '$.engine_config.scheduler_config.async_scheduling' WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END) AS async_scheduling,
    ANY_VALUE(integer_at(document, '$.engine_config.compilation_config.max_cudagraph_capture_size'))
        AS max_cudagraph_capture_size,
    ANY_VALUE(integer_at(document, '$.engine_config.scheduler_config.max_num_batched_tokens')) AS max_num_batched_tokens,
    ANY_VALUE(CASE document -> '$.profiler.stacks' WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END) AS stacks,
    ANY_VALUE(CASE document -> '$.profiler.shapes' WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END) AS shapes,
    MAX(overhead_pct) AS overhead_pct
FROM run
