-- One row per file of measured ceilings: peaks.json of `traceql experiment peaks`, given with --peaks or in a run directory.
-- @kind   source
-- @scope  run
-- @column path         VARCHAR  Absolute path of the file when it was loaded.
-- @column run          VARCHAR  Path of the run directory that it is in; NULL if it was given with --peaks.
-- @column device_name  VARCHAR  Name of the GPU that was measured.
-- @column document     JSON     Content of the file.
CREATE TABLE IF NOT EXISTS peak_file (
    path VARCHAR,
    run VARCHAR,
    device_name VARCHAR,
    document JSON
)
