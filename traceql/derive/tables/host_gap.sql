-- One row per rank, gap cause (host or sync) and kind of host event: the idle time that the launching thread spent in such events.
--
-- The rows of a rank and cause add up to the gaps of that cause.
-- @scope  rank
-- @needs  gap, host_time, is_caused_by_host, slice
-- @column rank   BIGINT   Rank.
-- @column cause  VARCHAR  Cause of the gaps: host or sync (see gap.cause).
-- @column name   VARCHAR  Innermost operator, annotation, Python frame or call that the launching thread was in; "(no event recorded)" if it was in none.
-- @column cat    VARCHAR  Event category, as in slice; NULL if there was none.
-- @column ns     BIGINT   Time in gaps during which this was the innermost event, ns.
WITH named AS (
    SELECT slice.rank, host_time.cause, slice.name, slice.cat, SUM(host_time.ns) AS ns
    FROM host_time
    INNER JOIN slice ON host_time.slice_id = slice.id
    GROUP BY slice.rank, host_time.cause, slice.name, slice.cat
),
total AS (
    SELECT rank, cause, SUM(dur) AS ns FROM gap WHERE is_caused_by_host(cause) GROUP BY rank, cause
)
SELECT rank, cause, name, cat, CAST(ns AS BIGINT) AS ns FROM named
UNION ALL
SELECT total.rank, total.cause, '(no event recorded)', NULL, CAST(total.ns - COALESCE(known.ns, 0) AS BIGINT)
FROM total
LEFT JOIN (SELECT rank, cause, SUM(ns) AS ns FROM named GROUP BY rank, cause) AS known
    USING (rank, cause)
WHERE total.ns > COALESCE(known.ns, 0)
ORDER BY rank, cause, ns DESC, name
