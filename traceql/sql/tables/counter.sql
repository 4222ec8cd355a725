-- One row per sample of a counter: a clock, a GPU metric, memory in use ...
-- @kind   source
-- @schema main
-- @scope  rank
-- @column rank      BIGINT   Rank that recorded the sample; NULL for a host process.
-- @column name      VARCHAR  What was measured, as in the file.
-- @column unit      VARCHAR  Unit of the value; NULL if the file does not have it.
-- @column ts        BIGINT   Time of the sample, ns since the run's first event.
-- @column value     DOUBLE   What was found.
-- @column track_id  BIGINT   Process, or device, that the counter belongs to (track.id).
CREATE TABLE IF NOT EXISTS counter (
    rank BIGINT,
    name VARCHAR,
    unit VARCHAR,
    ts BIGINT,
    value DOUBLE,
    track_id BIGINT
)
