-- One row per run of the lake, the latest first: what ran where, and how the time of its GPUs is divided.
--
-- Use it to see what the lake has, and which runs could not be loaded. Times are sums over the loaded
-- ranks; computing + exposed_transfer + exposed_wait + exposed_unmatched + exposed_copy + idle = window.
-- @param  limit                 INTEGER = 50   Maximum number of rows.
-- @param  status                VARCHAR = NULL  Only runs that were loaded (ok), or could not be (failed).
-- @values status                ok failed
-- @column run                   VARCHAR  Name of the run in the lake.
-- @column status                VARCHAR  ok, or failed: it could not be loaded.
-- @column model                 VARCHAR  Name of the model, or else the family and number of its layers; NULL if both are unknown.
-- @column gpu_name              VARCHAR  Kinds of its GPUs.
-- @column ranks                 BIGINT   Ranks that are loaded.
-- @column world_size            BIGINT   Ranks of the run.
-- @column host                  VARCHAR  Its hosts; NULL if unknown.
-- @column started               VARCHAR  When it was started, or else its first event, UTC.
-- @column git_commit            VARCHAR  Commit of the folder in which it was started; NULL if unknown.
-- @column vllm_version          VARCHAR  Version of vLLM; NULL if unknown.
-- @column torch_version         VARCHAR  Version of PyTorch; NULL if unknown.
-- @column window_ns             BIGINT   GPU spans of its ranks, ns.
-- @column computing_ns          BIGINT   Time in which a compute kernel ran, ns.
-- @column exposed_transfer_ns   BIGINT   Time in which collectives transferred data and no compute kernel ran, ns.
-- @column exposed_wait_ns       BIGINT   Time in which collectives only waited for a late rank, ns.
-- @column exposed_unmatched_ns  BIGINT   Time in operations that were not matched, so that waiting is unknown, ns.
-- @column exposed_copy_ns       BIGINT   Time in which only copies ran, ns.
-- @column idle_ns               BIGINT   Time in which nothing ran, ns.
-- @column kernels               BIGINT   GPU activities.
-- @column setup                 VARCHAR  Equal where set-ups forbid no comparison of speed (lake_run.setup).
-- @column source                VARCHAR  Path that was added.
-- @column error                 VARCHAR  Why it could not be loaded; NULL if it could.
-- @key    run status model gpu_name ranks started window_ns computing_ns exposed_wait_ns idle_ns git_commit error
-- @empty  the lake has no such run; add one with traceql lake add RUN
-- @chart  stacked x=computing_ns,exposed_transfer_ns,exposed_wait_ns,exposed_unmatched_ns,exposed_copy_ns,idle_ns y=run
-- @title  Where the time of each run's GPUs went
WITH summed AS (
    SELECT
        run,
        SUM(window_ns) AS window_ns,
        SUM(computing_ns) AS computing_ns,
        SUM(exposed_transfer_ns) AS exposed_transfer_ns,
        SUM(exposed_wait_ns) AS exposed_wait_ns,
        SUM(exposed_unmatched_ns) AS exposed_unmatched_ns,
        SUM(exposed_copy_ns) AS exposed_copy_ns,
        SUM(idle_ns) AS idle_ns
    FROM rank_summary
    GROUP BY run
)
SELECT
    lake_run.run, lake_run.status,
    COALESCE(lake_run.model, format('{}, {} layers', lake_run.family, lake_run.layers), lake_run.family) AS model,
    lake_run.gpu_name, lake_run.ranks, lake_run.world_size,
    NULLIF(array_to_string(lake_run.hosts, ', '), '') AS host,
    lake_run.started, lake_run.git_commit, lake_run.vllm_version, lake_run.torch_version,
    CAST(summed.window_ns AS BIGINT) AS window_ns,
    CAST(summed.computing_ns AS BIGINT) AS computing_ns,
    CAST(summed.exposed_transfer_ns AS BIGINT) AS exposed_transfer_ns,
    CAST(summed.exposed_wait_ns AS BIGINT) AS exposed_wait_ns,
    CAST(summed.exposed_unmatched_ns AS BIGINT) AS exposed_unmatched_ns,
    CAST(summed.exposed_copy_ns AS BIGINT) AS exposed_copy_ns,
    CAST(summed.idle_ns AS BIGINT) AS idle_ns,
    lake_run.kernels, lake_run.setup, lake_run.source, lake_run.error
FROM lake_run
LEFT JOIN summed USING (run)
WHERE $status::VARCHAR IS NULL OR lake_run.status = $status::VARCHAR
ORDER BY lake_run.started DESC NULLS LAST, lake_run.run
LIMIT $limit::INTEGER
