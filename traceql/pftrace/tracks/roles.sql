-- One slice per series of consecutive kernels with the same role in the same layer: from the first
-- start to the last end.
WITH device_count AS (
    SELECT rank, COUNT(DISTINCT device) AS devices FROM kernel GROUP BY rank
),
placed AS (
    SELECT
        id, rank, device, ts, dur, role, layer, pass, step_id,
        (
            role IS DISTINCT FROM LAG(role) OVER in_order
            OR layer IS DISTINCT FROM LAG(layer) OVER in_order
            OR pass IS DISTINCT FROM LAG(pass) OVER in_order
            OR step_id IS DISTINCT FROM LAG(step_id) OVER in_order
        ) AS is_first
    FROM kernel
    WHERE role IS NOT NULL
    WINDOW in_order AS (PARTITION BY rank, device ORDER BY ts, id)
),
numbered AS (
    SELECT
        *,
        SUM(CASE WHEN is_first THEN 1 ELSE 0 END) OVER (
            PARTITION BY rank, device ORDER BY ts, id ROWS UNBOUNDED PRECEDING
        ) AS run
    FROM placed
),
run AS (
    SELECT
        rank,
        device,
        ANY_VALUE(role) AS role,
        ANY_VALUE(layer) AS layer,
        ANY_VALUE(pass) AS pass,
        ANY_VALUE(step_id) AS step_id,
        MIN(ts) AS ts,
        MAX(ts) AS last_ts,
        MAX(ts + GREATEST(dur, 0)) AS end_ts,
        COUNT(*) AS kernels,
        MIN(id) AS kernel_id
    FROM numbered
    GROUP BY rank, device, run
)
SELECT
    run.rank,
    'Roles' || CASE WHEN device_count.devices > 1 THEN ' · GPU ' || run.device ELSE '' END AS track,
    run.ts,
    run.end_ts - run.ts AS dur,
    'role' AS cat,
    run.role AS name,
    run.role AS colour,
    run.kernel_id,
    run.kernels,
    run.step_id,
    run.pass,
    run.layer,
    'SELECT * FROM kernel WHERE ' || CASE run.kernels
        WHEN 1 THEN 'id = ' || run.kernel_id
        ELSE
            'rank = ' || run.rank || ' AND device = ' || run.device || ' AND role = ''' || run.role
            || ''' AND ts BETWEEN ' || run.ts || ' AND ' || run.last_ts
    END AS sql
FROM run
INNER JOIN device_count ON run.rank = device_count.rank
ORDER BY run.rank, track, run.ts, 4 DESC, run.kernel_id
