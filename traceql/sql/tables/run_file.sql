-- One row per run directory that was loaded: the contents of its files, unchanged.
-- @kind   source
-- @scope  run
-- @column path      VARCHAR  Absolute path of the run directory when it was loaded.
-- @column document  JSON     Content of run.json.
-- @column metrics   JSON     Content of metrics.json; NULL if the run directory has none.
CREATE TABLE IF NOT EXISTS run_file (
    path VARCHAR,
    document JSON,
    metrics JSON
)
