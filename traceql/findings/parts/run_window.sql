-- One row: the mean GPU span of the ranks, and the number of ranks.
-- @needs  rank_window
SELECT AVG(ns) AS ns, COUNT(*) AS ranks FROM rank_window
