-- A time of one rank by the clock of the rank that it was compared with (columns of table clock), ns.
-- @kind   macro
-- @scope  rank
-- @needs  clock_drift_ns
CREATE OR REPLACE MACRO on_reference_clock(ts, offset_ns, drift, at_ns) AS
    ts - offset_ns - clock_drift_ns(ts - at_ns, drift)
