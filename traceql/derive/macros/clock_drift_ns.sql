-- How far a clock with this drift gets ahead within dur, ns.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO clock_drift_ns(dur, drift) AS CAST(round(drift * dur) AS BIGINT)
