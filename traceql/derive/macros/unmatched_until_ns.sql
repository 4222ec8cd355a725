-- Exposed time of a device in unmatched operations until an instant (ns), from the last row of view comm_until that began by then; 0 without one.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO unmatched_until_ns(last, instant) AS
    COALESCE(last.unmatched_ns + (last.part = 'exposed_unmatched')::BIGINT * LEAST(instant - last.ts, last.dur), 0)
