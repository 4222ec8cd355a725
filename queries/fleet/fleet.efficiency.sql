-- One row per model, kind of GPU and phase: which share of the hardware's peaks the runs reach.
--
-- Use it to compare GPUs and layouts by one number, and to see how far runs of one kind differ. MFU and
-- MBU are those of model.mfu, with the peaks of the data sheets; a mean counts each run by its GPU time.
-- @param  limit          INTEGER = 50    Maximum number of rows.
-- @param  phase          VARCHAR = NULL  Only this phase; all by default.
-- @values phase          prefill decode mixed idle unknown all
-- @column model          VARCHAR  Name of the model, or else the family and number of its layers; unknown if neither is known.
-- @column gpu_name       VARCHAR  Kinds of the GPUs.
-- @column phase          VARCHAR  Phase of the steps, or all.
-- @column runs           BIGINT   Runs.
-- @column mfu_pct        DOUBLE   Model FLOPs utilization, percent; NULL if unknown in all runs.
-- @column mbu_pct        DOUBLE   Model bandwidth utilization, percent; NULL if unknown in all runs.
-- @column least_mbu_pct  DOUBLE   Least MBU of a run, percent.
-- @column most_mbu_pct   DOUBLE   Greatest MBU of a run, percent.
-- @column tokens_s       DOUBLE   Median of the runs: tokens per second of a step; NULL if unknown.
-- @column wall_ns        BIGINT   Time of the GPUs, ns.
-- @column least_run      VARCHAR  Run with the least MBU.
-- @column missing_runs   BIGINT   Runs of which something is unknown, so that their percentages are lower bounds.
-- @key    model gpu_name phase runs mfu_pct mbu_pct least_mbu_pct most_mbu_pct tokens_s
-- @empty  no run has steps with kernels
-- @chart  bar x=mfu_pct,mbu_pct y=model,gpu_name,phase
-- @title  Share of the GPUs' peaks by model, GPU and phase
WITH named AS (
    SELECT
        utilization.*,
        COALESCE(lake_run.model, format('{}, {} layers', lake_run.family, lake_run.layers), lake_run.family, 'unknown') AS model,
        COALESCE(lake_run.gpu_name, 'unknown') AS gpu_name
    FROM utilization
    INNER JOIN lake_run USING (run)
    WHERE $phase::VARCHAR IS NULL OR utilization.phase = $phase::VARCHAR
)
SELECT
    model, gpu_name, phase,
    COUNT(*) AS runs,
    SUM(mfu_pct * wall_ns ORDER BY mfu_pct * wall_ns) / SUM(wall_ns) FILTER (mfu_pct IS NOT NULL) AS mfu_pct,
    SUM(mbu_pct * wall_ns ORDER BY mbu_pct * wall_ns) / SUM(wall_ns) FILTER (mbu_pct IS NOT NULL) AS mbu_pct,
    MIN(mbu_pct) AS least_mbu_pct,
    MAX(mbu_pct) AS most_mbu_pct,
    MEDIAN(tokens_s) AS tokens_s,
    CAST(SUM(wall_ns) AS BIGINT) AS wall_ns,
    MIN(run) FILTER (is_least) AS least_run,
    COUNT(missing) AS missing_runs
FROM (
    SELECT *, mbu_pct = MIN(mbu_pct) OVER (PARTITION BY model, gpu_name, phase) AS is_least FROM named
)
GROUP BY model, gpu_name, phase
ORDER BY wall_ns DESC, model, gpu_name, phase
LIMIT $limit::INTEGER
