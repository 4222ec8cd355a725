-- What launching threads did in gaps of the causes host and sync: own time of the innermost event.

CREATE OR REPLACE TABLE host_gap AS
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
ORDER BY rank, cause, ns DESC, name;

DROP TABLE host_time;

COMMENT ON TABLE host_gap IS
    'One row per rank, cause of gap (host, sync) and what the launching thread did in it; adds up to the gaps of these causes.';
COMMENT ON COLUMN host_gap.rank IS 'Rank.';
COMMENT ON COLUMN host_gap.cause IS 'host or sync; as in gap.';
COMMENT ON COLUMN host_gap.name IS 'Innermost operator, annotation, Python frame or call; "(no event recorded)" where the thread was in none.';
COMMENT ON COLUMN host_gap.cat IS 'Its category, as in slice.';
COMMENT ON COLUMN host_gap.ns IS 'Time of gaps in which it was the innermost, ns.';
