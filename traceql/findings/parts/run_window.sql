-- One row: the mean GPU span of the ranks, and how many ranks there are.
-- @needs  rank_window
SELECT AVG(ns) AS ns, COUNT(*) AS ranks FROM rank_window
