-- One row per event without a duration.
-- @kind   source
-- @scope  rank
-- @column rank      BIGINT   Rank that recorded the event.
-- @column cat       VARCHAR  Category as in the file.
-- @column name      VARCHAR  Name as in the file.
-- @column ts        BIGINT   Time, ns since trace.base_time_ns.
-- @column pid       BIGINT   Process id as in the file; NULL where it is no integer (see track).
-- @column tid       BIGINT   Thread id as in the file; NULL where it is no integer (see track).
-- @column track_id  BIGINT   Row of track: the process and thread.
-- @column args      JSON     Arguments as in the file, JSON.
CREATE TABLE IF NOT EXISTS instant (
    rank BIGINT,
    cat VARCHAR,
    name VARCHAR,
    ts BIGINT,
    pid BIGINT,
    tid BIGINT,
    track_id BIGINT,
    args JSON USING COMPRESSION zstd
)
