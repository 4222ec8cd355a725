-- One row: the number of ranks, the most devices of one, and the mean of their GPU spans, of the time they lost and of unmatched communication.
-- @needs  rank_window
SELECT AVG(ns) AS ns, COUNT(*) AS ranks, MAX(devices) AS devices, AVG(lost_ns) AS lost_ns, AVG(unmatched_ns) AS unmatched_ns FROM rank_window
