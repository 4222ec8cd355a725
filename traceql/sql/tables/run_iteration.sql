-- One row per recorded engine iteration of a rank, as the engine scheduled it.
-- @kind   source
-- @scope  run
-- @column run            VARCHAR              Path of the run directory.
-- @column rank           BIGINT               Rank that ran the iteration.
-- @column number         BIGINT               Position among the recorded iterations of its rank, from 0.
-- @column begin_unix_ns  BIGINT               Time at which the engine called the worker, Unix time, ns.
-- @column requests       MAP(VARCHAR, BIGINT)  Number of tokens that were processed for each request, by request id.
-- @column computed       MAP(VARCHAR, BIGINT)  Number of tokens of each request whose keys and values existed before the iteration, by request id; NULL if the file does not say.
CREATE TABLE IF NOT EXISTS run_iteration (
    run VARCHAR,
    rank BIGINT,
    number BIGINT,
    begin_unix_ns BIGINT,
    requests MAP(VARCHAR, BIGINT),
    computed MAP(VARCHAR, BIGINT)
)
