-- Whether an activity can have run at ts for dur (ns); earliest_ts, latest_ts and zero_ts are the columns of its rank in recording_span.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO is_possible_time(ts, dur, earliest_ts, latest_ts, zero_ts) AS
    COALESCE(ts >= earliest_ts AND ts + dur <= latest_ts, TRUE)
    AND COALESCE(ts <> zero_ts OR dur > 0, TRUE)
