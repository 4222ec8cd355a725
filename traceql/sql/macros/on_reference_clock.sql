-- Converts ts (ns, by a rank's own clock) to the reference clock; offset_ns, drift and at_ns are the rank's columns of table clock.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO on_reference_clock(ts, offset_ns, drift, at_ns) AS
    ts - offset_ns - CAST(round(drift * (ts - at_ns)) AS BIGINT)
