-- One slice over the whole excerpt, which names its part of the run, above all ranks, and one per
-- window of a rank.
WITH span AS (
    SELECT MIN(ts) AS ts, MAX(ts + dur) AS end_ts FROM excerpt_window
),
placed AS (
    SELECT -1 AS rank, ts, end_ts - ts AS dur, NULL AS number FROM span
    UNION ALL
    SELECT rank, ts, dur, number FROM excerpt_window
)
SELECT
    COALESCE(placed.rank, -2) AS rank,
    'Excerpt' AS track,
    placed.ts, placed.dur,
    'excerpt' AS cat,
    CASE WHEN placed.number IS NULL THEN excerpt.text ELSE 'in this excerpt' END AS name,
    'excerpt' AS colour,
    excerpt.source, excerpt.options, excerpt.kernels, excerpt.all_kernels,
    'SELECT * FROM internal.excerpt_window' AS sql
FROM placed
CROSS JOIN excerpt
ORDER BY 1, placed.ts
