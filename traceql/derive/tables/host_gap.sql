-- One row per rank, cause of gap (host, sync) and what the launching thread did in it; adds up to the gaps of these causes.
-- @scope  rank
-- @needs  gap, host_time, slice
-- @column rank   BIGINT   Rank.
-- @column cause  VARCHAR  host or sync; as in gap.
-- @column name   VARCHAR  Innermost operator, annotation, Python frame or call; "(no event recorded)" where the thread was in none.
-- @column cat    VARCHAR  Its category, as in slice.
-- @column ns     BIGINT   Time of gaps in which it was the innermost, ns.
WITH named AS (
    SELECT slice.rank, host_time.cause, slice.name, slice.cat, SUM(host_time.ns) AS ns
    FROM host_time
    INNER JOIN slice ON host_time.slice_id = slice.id
    GROUP BY slice.rank, host_time.cause, slice.name, slice.cat
),
total AS (
    SELECT rank, cause, SUM(dur) AS ns FROM gap WHERE cause IN ('host', 'sync') GROUP BY rank, cause
)
SELECT rank, cause, name, cat, CAST(ns AS BIGINT) AS ns FROM named
UNION ALL
SELECT total.rank, total.cause, '(no event recorded)', NULL, CAST(total.ns - COALESCE(known.ns, 0) AS BIGINT)
FROM total
LEFT JOIN (SELECT rank, cause, SUM(ns) AS ns FROM named GROUP BY rank, cause) AS known
    USING (rank, cause)
WHERE total.ns > COALESCE(known.ns, 0)
ORDER BY rank, cause, ns DESC, name
