-- Overlapped communication of a device until an instant (ns), from the last row of view comm_until that began by then; 0 without one.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO overlap_until_ns(last, instant) AS
    COALESCE(last.overlap_ns + (last.part = 'computing')::BIGINT * LEAST(instant - last.ts, last.dur), 0)
