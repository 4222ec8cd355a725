-- Communication of a device until an instant (ns), from the last row of view comm_until that began by then; 0 without one.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO comm_until_ns(last, instant) AS
    COALESCE(last.comm_ns + LEAST(instant - last.ts, last.dur), 0)
