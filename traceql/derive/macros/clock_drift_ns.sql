-- How far a clock with the given drift gets ahead during dur (ns), in ns.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO clock_drift_ns(dur, drift) AS CAST(round(drift * dur) AS BIGINT)
