-- One row per kind of step: what the hosts did most while their GPUs waited for them, as a text.
-- @needs  gap_host_event, step_kind
WITH summed AS (
    SELECT
        CASE
            WHEN phase IS NULL AND graph_mode IS NULL AND NOT EXISTS (FROM step_kind WHERE kind = 'unrecorded')
                THEN 'outside of steps'
            WHEN graph_mode = 'none' THEN 'none'
            ELSE concat_ws(' ', phase, COALESCE(graph_mode, 'unrecorded'))
        END AS kind,
        CASE WHEN cat IS NULL THEN 'no recorded event' ELSE name END AS name,
        SUM(ns) AS ns
    FROM gap_host_event
    WHERE phase IS DISTINCT FROM 'idle'
    GROUP BY ALL
),
shared AS (
    SELECT *, 100.0 * ns / SUM(ns) OVER (PARTITION BY kind) AS pct FROM summed
)
SELECT
    kind,
    array_to_string(
        list(format('{} ({:.0f}%)', name, pct) ORDER BY ns DESC, name) FILTER (pct >= 5)[:3], ', '
    ) AS doing
FROM shared
GROUP BY kind
