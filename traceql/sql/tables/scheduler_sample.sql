-- One row per line of scheduler.jsonl: the scheduler in an engine step, or a sample of a server's metrics endpoint.
-- @kind   source
-- @scope  run
-- @column run                   VARCHAR  Path of the run directory.
-- @column rank                  BIGINT   First rank of the engine.
-- @column number                BIGINT   Iteration (run_iteration.number); NULL of a sample.
-- @column unix_ns               BIGINT   Time at which the scheduler had made the step, or of the sample, Unix time, ns.
-- @column running               BIGINT   Requests that hold a place in the batch.
-- @column waiting               BIGINT   Requests that wait for one.
-- @column kv_blocks_used        BIGINT   KV blocks in use.
-- @column kv_blocks             BIGINT   All KV blocks.
-- @column preempted             BIGINT   Requests that lost their blocks to others.
-- @column prefix_queried        BIGINT   Tokens looked up in the prefix cache.
-- @column prefix_hits           BIGINT   Tokens that were in it.
-- @column scheduled_tokens      BIGINT   Tokens to process in the step.
-- @column max_scheduled_tokens  BIGINT   The most that a step may process.
-- @column max_running           BIGINT   The most requests that may run.
-- @column drafted               BIGINT   Tokens that speculation drafted.
-- @column accepted              BIGINT   Those of them that the model confirmed.
CREATE TABLE IF NOT EXISTS scheduler_sample (
    run VARCHAR,
    rank BIGINT,
    number BIGINT,
    unix_ns BIGINT,
    running BIGINT,
    waiting BIGINT,
    kv_blocks_used BIGINT,
    kv_blocks BIGINT,
    preempted BIGINT,
    prefix_queried BIGINT,
    prefix_hits BIGINT,
    scheduled_tokens BIGINT,
    max_scheduled_tokens BIGINT,
    max_running BIGINT,
    drafted BIGINT,
    accepted BIGINT
)
