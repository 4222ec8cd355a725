-- One row per stratum, part, role and cause: what all lanes spent the whole recording on.
--
-- The rows add up to the GPU spans of all ranks, summed over lanes, to the nanosecond. The stratum is
-- that of the grain rows.
-- @kind   result
-- @column stratum  VARCHAR  Stratum of the time; incomplete units, or outside steps.
-- @column phase    VARCHAR  Phase of the stratum; NULL outside steps and in incomplete units.
-- @column part     VARCHAR  computing, exposed_transfer, exposed_wait, exposed_unmatched, exposed_copy or idle.
-- @column role     VARCHAR  Role; other if unknown. NULL in idle time, and outside steps.
-- @column cause    VARCHAR  Why the devices are idle; NULL in all other parts.
-- @column ns       BIGINT   Time, summed over lanes, ns; negative only where GPU spans of steps overlap.
WITH own AS (
    SELECT
        COALESCE(member.stratum, 'incomplete units') AS stratum,
        CASE WHEN member.stratum IS NOT NULL THEN unit.phase END AS phase,
        time_of_unit.part, time_of_unit.role, time_of_unit.cause,
        SUM(time_of_unit.ns) AS ns
    FROM time_of_unit
    INNER JOIN unit USING (unit_id)
    LEFT JOIN member ON unit.unit_id = member.unit_id AND member.grain = 'rows'
    WHERE time_of_unit.part <> 'other_step'
    GROUP BY ALL
),
whole AS (
    SELECT part, cause, SUM(dur) AS ns FROM device_timeline GROUP BY part, cause
),
in_steps AS (
    SELECT part, cause, SUM(ns) AS ns FROM own GROUP BY part, cause
),
rest AS (
    SELECT
        COALESCE(whole.part, in_steps.part) AS part,
        COALESCE(whole.cause, in_steps.cause) AS cause,
        COALESCE(whole.ns, 0) - COALESCE(in_steps.ns, 0) AS ns
    FROM whole
    FULL JOIN in_steps ON whole.part = in_steps.part AND whole.cause IS NOT DISTINCT FROM in_steps.cause
)
SELECT stratum, phase, part, role, cause, CAST(ns AS BIGINT) AS ns FROM own
UNION ALL
SELECT 'outside steps', NULL, part, NULL, cause, CAST(ns AS BIGINT) FROM rest WHERE ns <> 0
ORDER BY ALL
