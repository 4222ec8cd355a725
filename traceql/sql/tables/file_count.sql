-- One row per kind of event in a trace file: how many events there are, counted before they are loaded.
--
-- The ledger compares these numbers with the loaded tables.
-- @kind   source
-- @scope  rank
-- @column rank    BIGINT   Rank that recorded the events.
-- @column phase   VARCHAR  slice for complete events (those with a duration), else the letter of the event in the trace format.
-- @column cat     VARCHAR  Event category of complete events; empty for other events.
-- @column events  BIGINT   Number of events in the file; NULL if it cannot be counted.
-- @column dur     BIGINT   Total duration of these events, ns; NULL if it cannot be counted.
CREATE TABLE IF NOT EXISTS file_count (
    rank BIGINT,
    phase VARCHAR,
    cat VARCHAR,
    events BIGINT,
    dur BIGINT
)
