-- One row per event without a duration.
-- @kind   source
-- @schema main
-- @scope  rank
-- @column rank      BIGINT   Rank that recorded the event; NULL for a host process.
-- @column cat       VARCHAR  Event category as in the file.
-- @column name      VARCHAR  Name as in the file.
-- @column ts        BIGINT   Time, ns since the run's first event.
-- @column pid       BIGINT   Process id as in the file; NULL if it is not an integer (see track).
-- @column tid       BIGINT   Thread id as in the file; NULL if it is not an integer (see track).
-- @column track_id  BIGINT   Process and thread of the event (track.id).
-- @column args      JSON     Arguments as in the file, as JSON.
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
