-- What launching threads did in gaps of the causes host and sync: own time of the innermost event.

CREATE OR REPLACE VIEW host_gap AS
WITH waiting AS (
    SELECT
        gap.rank,
        gap.cause,
        call.track_id,
        gap.ts,
        gap.dur,
        SUM(gap.dur) OVER (
            PARTITION BY gap.cause, call.track_id ORDER BY gap.ts
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns
    FROM gap
    INNER JOIN kernel ON gap.next_kernel_id = kernel.id
    INNER JOIN slice AS call ON kernel.launch_id = call.id
    WHERE gap.cause IN ('host', 'sync')
),
thread AS (
    SELECT DISTINCT cause, track_id FROM waiting
),
-- After an event begins it is the innermost one; after it ends, the one around it is.
edge AS (
    SELECT track_id, ts, TRUE AS begins, depth, id AS inside_id
    FROM slice
    WHERE dur > 0 AND track_id IN (SELECT track_id FROM thread)
    UNION ALL
    SELECT track_id, ts + dur, FALSE, -depth, parent_id
    FROM slice
    WHERE dur > 0 AND track_id IN (SELECT track_id FROM thread)
),
stretch AS (
    SELECT
        track_id,
        inside_id,
        ts,
        LEAD(ts) OVER (PARTITION BY track_id ORDER BY ts, begins, depth) AS end_ts
    FROM edge
),
point AS (
    SELECT thread.cause, stretch.track_id, stretch.inside_id, stretch.ts, -1 AS sign
    FROM stretch
    INNER JOIN thread USING (track_id)
    WHERE stretch.end_ts > stretch.ts
    UNION ALL
    SELECT thread.cause, stretch.track_id, stretch.inside_id, stretch.end_ts, 1
    FROM stretch
    INNER JOIN thread USING (track_id)
    WHERE stretch.end_ts > stretch.ts
),
inside AS (
    SELECT
        point.cause,
        point.inside_id,
        SUM(
            point.sign * (
                COALESCE(waiting.before_ns, 0)
                + COALESCE(LEAST(point.ts - waiting.ts, waiting.dur), 0)
            )
        ) AS ns
    FROM point
    ASOF LEFT JOIN waiting
        ON point.cause = waiting.cause
        AND point.track_id = waiting.track_id
        AND point.ts >= waiting.ts
    GROUP BY point.cause, point.inside_id
    HAVING ns > 0
),
named AS (
    SELECT slice.rank, inside.cause, slice.name, slice.cat, SUM(inside.ns) AS ns
    FROM inside
    INNER JOIN slice ON inside.inside_id = slice.id
    GROUP BY slice.rank, inside.cause, slice.name, slice.cat
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
WHERE total.ns > COALESCE(known.ns, 0);

COMMENT ON VIEW host_gap IS
    'One row per rank, cause of gap (host, sync) and what the launching thread did in it; adds up to the gaps of these causes.';
COMMENT ON COLUMN host_gap.rank IS 'Rank.';
COMMENT ON COLUMN host_gap.cause IS 'host or sync; as in gap.';
COMMENT ON COLUMN host_gap.name IS 'Innermost operator, annotation, Python frame or call; "(no event recorded)" where the thread was in none.';
COMMENT ON COLUMN host_gap.cat IS 'Its category, as in slice.';
COMMENT ON COLUMN host_gap.ns IS 'Time of gaps in which it was the innermost, ns.';
