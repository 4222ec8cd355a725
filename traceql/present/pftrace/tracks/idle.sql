-- Samples of the share of time in which each GPU was idle: one per interval of a round length, of
-- which there are at most two thousand, so that each is about as wide as a pixel if all are visible.
WITH span AS (
    SELECT rank, device, MIN(ts) AS ts, MAX(ts + GREATEST(dur, 0)) AS end_ts
    FROM kernel
    GROUP BY rank, device
),
device_count AS (
    SELECT rank, COUNT(*) AS devices FROM span GROUP BY rank
),
interval_length AS (
    SELECT MIN(CAST(digit * POW(10, zeros) AS BIGINT)) AS ns
    FROM (SELECT UNNEST([1, 2, 5]) AS digit)
    CROSS JOIN (SELECT UNNEST(range(17)) AS zeros)
    WHERE digit * POW(10, zeros) * 2000 >= (SELECT MAX(end_ts) - MIN(ts) FROM span)
),
numbered AS (
    SELECT rank, device, UNNEST(range((end_ts - ts + ns - 1) // ns)) AS number, ts AS span_ts, end_ts, ns
    FROM span
    CROSS JOIN interval_length
),
bin AS (
    SELECT
        rank, device, number,
        span_ts + number * ns AS ts,
        LEAST(span_ts + (number + 1) * ns, end_ts) AS end_ts
    FROM numbered
),
gap_part AS (
    SELECT
        gap.rank, gap.device, gap.ts,
        gap.ts + gap.dur AS end_ts,
        span.ts AS span_ts,
        ns,
        UNNEST(range((gap.ts - span.ts) // ns, (gap.ts + gap.dur - 1 - span.ts) // ns + 1)) AS number
    FROM gap
    INNER JOIN span ON gap.rank = span.rank AND gap.device = span.device
    CROSS JOIN interval_length
),
idle AS (
    SELECT
        rank, device, number,
        SUM(LEAST(end_ts, span_ts + (number + 1) * ns) - GREATEST(ts, span_ts + number * ns)) AS ns
    FROM gap_part
    GROUP BY rank, device, number
),
sample AS (
    SELECT bin.rank, bin.device, bin.ts, 100.0 * COALESCE(idle.ns, 0) / (bin.end_ts - bin.ts) AS value
    FROM bin
    LEFT JOIN idle USING (rank, device, number)
    UNION ALL
    SELECT rank, device, end_ts, 0 FROM span
)
SELECT
    sample.rank,
    'Idle' || CASE WHEN device_count.devices > 1 THEN ' · GPU ' || sample.device ELSE '' END AS track,
    sample.ts, sample.value,
    '%' AS unit
FROM sample
INNER JOIN device_count USING (rank)
ORDER BY sample.rank, track, sample.ts
