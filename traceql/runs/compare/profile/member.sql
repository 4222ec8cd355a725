-- One row per complete unit and grain: the stratum that it belongs to, whose units are compared with each other.
-- @kind   step
-- @column unit_id     BIGINT   Unit (unit.unit_id).
-- @column grain       VARCHAR  kv: strata also tell the lengths of the KV cache apart; rows: they do not, for runs that do not know them. Without any such length there is no grain kv.
-- @column stratum     VARCHAR  Name of the stratum, the same in every run.
-- @column is_typical  BOOLEAN  Whether it is one of the typical units of the stratum: the half in the middle, if they are sorted by their GPU spans.
WITH named AS (
    SELECT
        unit_id, gpu_ns, kv_from,
        phase || COALESCE(
            ', ' || CASE
                WHEN rows_to = 1 THEN '1 row'
                WHEN rows_to = 2 THEN '2 rows'
                WHEN rows_to = 4 THEN '3 to 4 rows'
                WHEN rows_to = 8 THEN '5 to 8 rows'
                WHEN rows_to <= 256 THEN format('{} to {} rows', rows_to - 7, rows_to)
                ELSE format('{:,} to {:,} rows', rows_to // 2 + 1, rows_to)
            END,
            ''
        ) AS size
    FROM unit
    WHERE is_complete
),
assigned AS (
    SELECT unit_id, gpu_ns, 'rows' AS grain, size AS stratum FROM named
    UNION ALL
    SELECT
        unit_id, gpu_ns,
        'kv',
        size || COALESCE(format(', KV {:,} to {:,}', kv_from, 2 * kv_from - 1), '')
    FROM named
    WHERE EXISTS (FROM unit WHERE kv_from IS NOT NULL)
),
ordered AS (
    SELECT
        *,
        ROW_NUMBER() OVER (PARTITION BY grain, stratum ORDER BY gpu_ns, unit_id) AS place,
        COUNT(*) OVER (PARTITION BY grain, stratum) AS units
    FROM assigned
)
SELECT
    unit_id, grain, stratum,
    4 * ABS(place - (units + 1) // 2) <= units AS is_typical
FROM ordered
ORDER BY grain, unit_id
