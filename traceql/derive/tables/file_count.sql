-- One row per kind of event in a file, counted before it was loaded.
-- @kind   source
-- @scope  rank
-- @column rank    BIGINT   Rank that recorded the events.
-- @column phase   VARCHAR  slice for complete events, else the phase letter of the trace format.
-- @column cat     VARCHAR  Category of complete events, else empty.
-- @column events  BIGINT   Events in the file.
-- @column dur     BIGINT   Their summed duration, ns.
CREATE TABLE IF NOT EXISTS file_count (
    rank BIGINT,
    phase VARCHAR,
    cat VARCHAR,
    events BIGINT,
    dur BIGINT
)
