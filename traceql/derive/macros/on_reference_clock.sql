-- Converts ts (ns, by a rank's own clock) to the reference clock; offset_ns, drift and at_ns are the rank's columns of table clock.
-- @kind   macro
-- @scope  rank
-- @needs  clock_drift_ns
CREATE OR REPLACE MACRO on_reference_clock(ts, offset_ns, drift, at_ns) AS
    ts - offset_ns - clock_drift_ns(ts - at_ns, drift)
