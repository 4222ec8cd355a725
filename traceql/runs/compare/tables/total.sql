-- One row per stratum, kind of change, part, role and cause: by how much it makes the recording of new longer than that of base.
--
-- The rows add up to the difference of the two recordings, on one lane, to the nanosecond. If a
-- stratum has other numbers of steps, its change is divided: the steps that came or went are work, each
-- with the mean of the times of a step on the two sides; the rest is speed.
-- @column stratum   VARCHAR  Stratum (without the lengths of the KV cache), incomplete units, or outside steps.
-- @column phase     VARCHAR  Phase of the stratum; NULL outside steps and in incomplete units.
-- @column change    VARCHAR  work (more or fewer steps), speed (the same steps took longer or shorter), only one side (the other has no such steps) or outside.
-- @column part      VARCHAR  As in waterfall.
-- @column role      VARCHAR  As in waterfall.
-- @column cause     VARCHAR  As in waterfall.
-- @column delta_ns  BIGINT   Time that the recording of new is longer, ns.
WITH own AS (
    SELECT
        total_run.side, part.stratum, part.phase, part.part, part.role, part.cause,
        part.ns AS lane_ns,
        total_run.lanes,
        SUM(part.ns) OVER (
            PARTITION BY total_run.side
            ORDER BY part.stratum, part.part, part.role NULLS FIRST, part.cause NULLS FIRST
        ) AS until_ns
    FROM total_run
    INNER JOIN profile_window_part AS part USING (side, run)
),
rounded AS (
    SELECT
        * EXCLUDE (lane_ns, lanes, until_ns),
        CAST(
            (2 * until_ns + lanes) // (2 * lanes) - (2 * (until_ns - lane_ns) + lanes) // (2 * lanes) AS BIGINT
        ) AS ns
    FROM own
),
sized AS (
    SELECT total_run.side, profile_stratum.stratum, profile_stratum.units
    FROM total_run
    INNER JOIN profile_stratum USING (side, run)
    WHERE profile_stratum.grain = 'rows'
),
joined AS (
    SELECT
        stratum,
        ANY_VALUE(phase) AS phase,
        part, role, cause,
        COALESCE(ANY_VALUE(ns) FILTER (side = 'base'), 0) AS base_ns,
        COALESCE(ANY_VALUE(ns) FILTER (side = 'new'), 0) AS new_ns
    FROM rounded
    GROUP BY stratum, part, role, cause
),
split AS (
    SELECT
        joined.*,
        base.units AS base_units,
        new.units AS new_units,
        CASE
            WHEN base.units IS NOT NULL AND new.units IS NOT NULL
                THEN CAST(
                    ROUND((new.units - base.units) * (joined.base_ns / base.units + joined.new_ns / new.units) / 2) AS BIGINT
                )
        END AS work_ns
    FROM joined
    LEFT JOIN (FROM sized WHERE side = 'base') AS base USING (stratum)
    LEFT JOIN (FROM sized WHERE side = 'new') AS new USING (stratum)
)
SELECT stratum, phase, 'work' AS change, part, role, cause, work_ns AS delta_ns
FROM split
WHERE work_ns <> 0
UNION ALL
SELECT
    stratum, phase,
    CASE
        WHEN work_ns IS NOT NULL THEN 'speed'
        WHEN base_units IS NULL AND new_units IS NULL THEN 'outside'
        ELSE 'only one side'
    END,
    part, role, cause,
    new_ns - base_ns - COALESCE(work_ns, 0)
FROM split
WHERE new_ns - base_ns - COALESCE(work_ns, 0) <> 0
ORDER BY stratum, change, part, role, cause
