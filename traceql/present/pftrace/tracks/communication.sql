-- Two slices per operation that was found on all its ranks: wait time, then transfer time. One
-- slice per other operation. Arrows connect the ranks of an operation in the order in which they
-- began it.
WITH device_count AS (
    SELECT rank, COUNT(DISTINCT device) AS devices FROM kernel GROUP BY rank
),
called AS (
    SELECT
        collective.*,
        kernel.device, kernel.ts,
        GREATEST(kernel.dur, 0) AS dur,
        kernel.role, kernel.layer, kernel.step_id
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
),
part AS (
    -- While a rank waits, no bytes move.
    SELECT * REPLACE (NULL AS bytes, NULL AS busbw_gbps), 'wait' AS part, ts AS part_ts, wait_ns AS part_dur
    FROM called
    WHERE wait_ns > 0
    UNION ALL
    SELECT *, 'transfer', ts + wait_ns, transfer_ns
    FROM called
    WHERE transfer_ns > 0 OR wait_ns = 0
    UNION ALL
    SELECT *, NULL, ts, dur
    FROM called
    WHERE wait_ns IS NULL
)
SELECT
    part.rank,
    'Communication'
    || CASE WHEN device_count.devices > 1 THEN ' · GPU ' || part.device ELSE '' END AS track,
    part.part_ts AS ts,
    part.part_dur AS dur,
    'communication' AS cat,
    COALESCE(part.part || ' · ', '') || part.op AS name,
    COALESCE(part.part, 'comm') AS colour,
    CASE WHEN part.part_ts = part.ts THEN part.match_id END AS flow,
    part.kernel_id, part.match_id, part.step_id, part.layer, part.role, part.wait_ns,
    part.transfer_ns, part.bytes, part.busbw_gbps, part.group_ranks,
    'SELECT * FROM collective WHERE kernel_id = ' || part.kernel_id AS sql
FROM part
INNER JOIN device_count ON part.rank = device_count.rank
ORDER BY part.rank, track, part.part_ts, part.part_dur DESC, part.kernel_id
