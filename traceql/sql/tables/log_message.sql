-- One row per line of log.txt in which vLLM or NCCL says what it decided, could not use, or had to do late.
-- @kind   source
-- @scope  run
-- @column run      VARCHAR  Path of the run directory.
-- @column line     BIGINT   Number of the line, from 1.
-- @column unix_ns  BIGINT   Time printed, Unix time, ns, full seconds; NULL if none is, or if run.json has no start.
-- @column process  VARCHAR  Process that printed it, such as EngineCore or Worker_TP0; NULL for that of the front end.
-- @column text     VARCHAR  Message without level, time and place in the source; at most 1,000 characters.
CREATE TABLE IF NOT EXISTS log_message (
    run VARCHAR,
    line BIGINT,
    unix_ns BIGINT,
    process VARCHAR,
    text VARCHAR
)
