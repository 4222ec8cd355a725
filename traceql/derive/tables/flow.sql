-- One row per arrow of the trace between two slices.
-- @kind   source
-- @scope  rank
-- @column rank       BIGINT  Rank that recorded it.
-- @column slice_out  BIGINT  Row of slice where it begins.
-- @column slice_in   BIGINT  Row of slice where it ends.
CREATE TABLE IF NOT EXISTS flow (
    rank BIGINT,
    slice_out BIGINT,
    slice_in BIGINT
)
