-- One row per scope: a phase whose steps are compared, or all of them.
-- @column scope     VARCHAR  A phase, or all.
-- @column position  BIGINT   Place by base's time in it, from 0; all comes last.
WITH phase_time AS (
    SELECT phase AS scope, SUM(base_total_ns ORDER BY stratum) AS ns
    FROM stratum
    WHERE is_compared
    GROUP BY phase
),
listed AS (
    SELECT scope, ns FROM phase_time
    UNION ALL
    SELECT 'all', -1 FROM weight WHERE scope = 'all' GROUP BY scope
)
SELECT scope, ROW_NUMBER() OVER (ORDER BY ns DESC, scope) - 1 AS position
FROM listed
ORDER BY position
