-- One row per run directory that was loaded.
-- @kind   source
-- @scope  run
-- @column path      VARCHAR  Absolute path of the folder when it was loaded.
-- @column document  JSON     run.json, whole.
-- @column metrics   JSON     metrics.json, whole; NULL where the folder has none.
CREATE TABLE IF NOT EXISTS run_file (
    path VARCHAR,
    document JSON,
    metrics JSON
)
