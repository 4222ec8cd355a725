-- One row: the metadata of a run; NULL if unknown.
-- @column model          VARCHAR    Name of the model, without folders.
-- @column family         VARCHAR    Family of models that its layers are of, such as qwen3.
-- @column layers         BIGINT     Layers of the model.
-- @column kind           VARCHAR    What was recorded: vllm-offline, vllm-server or program.
-- @column started        VARCHAR    When the run was started, or else its first event, UTC, ISO 8601.
-- @column git_commit     VARCHAR    Commit of the folder in which the run was started.
-- @column git_branch     VARCHAR    Its branch.
-- @column vllm_version   VARCHAR    Version of vLLM.
-- @column torch_version  VARCHAR    Version of PyTorch.
-- @column gpu_name       VARCHAR    Names of the GPUs that ran kernels.
-- @column hosts          VARCHAR[]  Names of the hosts of its ranks.
-- @column gpus           VARCHAR[]  Identifiers of the GPUs of its ranks.
-- @column ranks          BIGINT     Ranks that are loaded.
-- @column world_size     BIGINT     Ranks of the run.
-- @column tp             BIGINT     Tensor-parallel size.
-- @column pp             BIGINT     Pipeline-parallel size.
-- @column dp             BIGINT     Data-parallel size.
-- @column ep             BOOLEAN    Whether experts were spread over the ranks.
WITH loaded AS (
    SELECT
        COUNT(rank) AS ranks,
        MAX(world_size) AS world_size,
        MIN(base_time_ns) AS base_ns,
        STRING_AGG(DISTINCT device_name, ', ' ORDER BY device_name) AS gpu_name
    FROM trace
),
described AS (
    SELECT
        ANY_VALUE(regexp_extract(model, '[^/\\]+$')) AS model,
        ANY_VALUE(kind) AS kind,
        ANY_VALUE(start) AS started,
        ANY_VALUE(text_at(document, '$.git.commit')) AS git_commit,
        ANY_VALUE(text_at(document, '$.git.branch')) AS git_branch,
        ANY_VALUE(vllm_version) AS vllm_version,
        ANY_VALUE(torch_version) AS torch_version,
        BOOL_OR(ep) AS ep
    FROM run
),
stage AS (
    SELECT layout.pp_rank, MAX(rank_model.layers) AS layers
    FROM rank_model
    LEFT JOIN layout USING (rank)
    GROUP BY layout.pp_rank
),
placed AS (
    SELECT MAX(tp_size) AS tp, MAX(pp_size) AS pp, MAX(dp_size) AS dp FROM layout
),
device AS (
    SELECT
        array_agg(DISTINCT host ORDER BY host) FILTER (host IS NOT NULL) AS hosts,
        array_agg(DISTINCT gpu ORDER BY gpu) FILTER (gpu IS NOT NULL) AS gpus
    FROM (
        SELECT
            COALESCE(text_at(member.value, '$.host'), text_at(run.document, '$.host.name')) AS host,
            text_at(member.value, '$.device_uuid') AS gpu
        FROM run, json_each(run.document, '$.ranks') AS member
        WHERE integer_at(member.value, '$.rank') IN (SELECT rank FROM trace)
    )
)
SELECT
    NULLIF(described.model, '') AS model,
    (SELECT STRING_AGG(DISTINCT family, ', ' ORDER BY family) FROM rank_model) AS family,
    CAST((SELECT SUM(layers) FROM stage) AS BIGINT) AS layers,
    described.kind,
    COALESCE(
        described.started,
        -- Without a clock of the day, times count from the start of the machine: these are no dates.
        CASE
            WHEN loaded.base_ns > 1_000_000_000_000_000_000
                THEN strftime(make_timestamp(loaded.base_ns // 1000), '%Y-%m-%dT%H:%M:%S+00:00')
        END
    ) AS started,
    described.git_commit, described.git_branch, described.vllm_version, described.torch_version,
    loaded.gpu_name, device.hosts, device.gpus, loaded.ranks, loaded.world_size, placed.tp,
    placed.pp, placed.dp, described.ep
FROM loaded, described, placed, device
