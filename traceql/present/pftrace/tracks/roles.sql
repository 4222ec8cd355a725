-- One slice per series of consecutive kernels with the same role in the same layer: from the first
-- start to the last end. What they had to do is known for all kernels of a role, layer and step
-- together, and shown if they are one series.
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
    WHERE role IS NOT NULL AND ts IS NOT NULL
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
        rank, device,
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
),
efficiency AS (
    SELECT
        cost.rank, cost.step_id, cost.layer, cost.role, cost.kernels,
        cost.flops / cost.dur_ns / 1e3 AS tflops,
        cost.hbm_bytes / cost.dur_ns AS gbps,
        COALESCE(NULLIF(sheet.floor_ns, 0), sheet.link_ns) AS floor_ns,
        100 * sheet.floor_ns / cost.dur_ns AS peak_pct,
        100 * measured.floor_ns / cost.dur_ns AS measured_pct,
        CASE WHEN sheet.link_ns IS NOT NULL THEN 'link' ELSE sheet.bound END AS bound_by,
        sheet.missing
    FROM cost
    LEFT JOIN role_floor AS sheet
        ON cost.step_id = sheet.step_id
        AND cost.layer IS NOT DISTINCT FROM sheet.layer
        AND cost.role = sheet.role
        AND sheet.kind = 'data sheet'
    LEFT JOIN role_floor AS measured
        ON cost.step_id = measured.step_id
        AND cost.layer IS NOT DISTINCT FROM measured.layer
        AND cost.role = measured.role
        AND measured.kind = 'measured'
    WHERE cost.dur_ns > 0
)
SELECT
    run.rank,
    'Roles' || CASE WHEN device_count.devices > 1 THEN ' · GPU ' || run.device ELSE '' END AS track,
    run.ts,
    run.end_ts - run.ts AS dur,
    'role' AS cat,
    run.role AS name,
    run.role AS colour,
    run.kernel_id, run.kernels, run.step_id, run.pass, run.layer,
    CAST(round(efficiency.floor_ns) AS BIGINT) AS floor_ns,
    efficiency.bound_by,
    round(NULLIF(efficiency.peak_pct, 0), 1) AS percent_of_peak,
    round(NULLIF(efficiency.measured_pct, 0), 1) AS percent_of_measured,
    round(NULLIF(efficiency.gbps, 0), 1) AS achieved_gbps,
    round(NULLIF(efficiency.tflops, 0), 2) AS achieved_tflops,
    efficiency.missing AS floor_missing,
    'SELECT * FROM kernel WHERE ' || CASE run.kernels
        WHEN 1 THEN 'id = ' || run.kernel_id
        ELSE
            'rank = ' || run.rank || ' AND device = ' || run.device || ' AND role = ''' || run.role
            || ''' AND ts BETWEEN ' || run.ts || ' AND ' || run.last_ts
    END AS sql
FROM run
INNER JOIN device_count ON run.rank = device_count.rank
LEFT JOIN efficiency
    ON run.rank = efficiency.rank
    AND run.step_id = efficiency.step_id
    AND run.layer IS NOT DISTINCT FROM efficiency.layer
    AND run.role = efficiency.role
    AND run.kernels = efficiency.kernels
ORDER BY run.rank, track, run.ts, 4 DESC, run.kernel_id
