-- One row per recorded engine iteration of a rank, as the engine scheduled it.
-- @kind   source
-- @scope  run
-- @column run            VARCHAR              Path of the run directory.
-- @column rank           BIGINT               Rank that ran it.
-- @column number         BIGINT               Position among the recorded iterations of its rank, from 0.
-- @column begin_unix_ns  BIGINT               When the worker was called, Unix time, ns.
-- @column requests       MAP(VARCHAR, BIGINT)  Tokens that were processed for each request.
CREATE TABLE IF NOT EXISTS run_iteration (
    run VARCHAR,
    rank BIGINT,
    number BIGINT,
    begin_unix_ns BIGINT,
    requests MAP(VARCHAR, BIGINT)
)
