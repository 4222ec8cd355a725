-- One row per arrow that the trace file draws between two slices, such as from a launch call to its kernel.
-- @kind   source
-- @schema main
-- @scope  rank
-- @column rank       BIGINT  Rank that recorded it.
-- @column slice_out  BIGINT  Slice in which the arrow begins (slice.id).
-- @column slice_in   BIGINT  Slice in which the arrow ends (slice.id).
CREATE TABLE IF NOT EXISTS flow (
    rank BIGINT,
    slice_out BIGINT,
    slice_in BIGINT
)
