-- One row per grain, stratum and metric: its time in a unit of the stratum.
--
-- The step and its interval are medians of the units: of two in the middle, the shorter one. All other
-- metrics are means of the typical units, so that parts add up. A unit without any time of a metric
-- counts as 0.
-- @kind   result
-- @column grain    VARCHAR  kv or rows (member.grain).
-- @column stratum  VARCHAR  Name of the stratum.
-- @column metric   VARCHAR  step (the GPU span), interval (with the idle time right before it), busy (the GPU span without waiting and idle time), computing, exposed_comm and its parts exposed_transfer, exposed_wait and exposed_unmatched, exposed_copy, idle, idle.CAUSE, other_step, a role (without waiting), or a rank and a cause of lost time: what its idle time and the waiting for it cost all ranks.
-- @column kind     VARCHAR  whole (step, interval), part, role or root; wait and unmatched are a role's time in the parts exposed_wait and exposed_unmatched.
-- @column ns       DOUBLE   Time of a unit, summed over lanes, ns.
-- @column mad_ns   BIGINT   Median distance of a unit from the median unit, ns: the noise from step to step. NULL with fewer than three units.
-- @column kernels  DOUBLE   Mean number of kernels of a typical unit; NULL unless it is a role.
WITH valued AS (
    SELECT unit_id, 'step' AS metric, 'whole' AS kind, gpu_ns AS ns, NULL AS kernels FROM unit
    UNION ALL
    SELECT unit_id, 'interval', 'whole', gpu_ns + before_ns, NULL FROM unit
    UNION ALL
    SELECT unit_id, part, 'part', SUM(ns), NULL FROM time_of_unit GROUP BY unit_id, part
    UNION ALL
    SELECT unit_id, 'idle.' || cause, 'part', SUM(ns), NULL
    FROM time_of_unit
    WHERE part = 'idle'
    GROUP BY unit_id, cause
    UNION ALL
    SELECT unit_id, 'exposed_comm', 'part', SUM(ns), NULL
    FROM time_of_unit
    WHERE part IN ('exposed_transfer', 'exposed_wait', 'exposed_unmatched')
    GROUP BY unit_id
    UNION ALL
    SELECT unit_id, 'busy', 'part', SUM(ns), NULL
    FROM time_of_unit
    WHERE part IN ('computing', 'exposed_transfer', 'exposed_unmatched', 'exposed_copy')
    GROUP BY unit_id
    UNION ALL
    SELECT
        unit_step.unit_id,
        format('rank {}: {}', lost_time.root_rank, lost_time.cause),
        'root',
        SUM(lost_time.ns),
        NULL
    FROM unit_step
    INNER JOIN lost_time USING (step_id)
    WHERE lost_time.root_rank IS NOT NULL
    GROUP BY unit_step.unit_id, lost_time.root_rank, lost_time.cause
    UNION ALL
    SELECT
        unit_id, role,
        'role',
        COALESCE(SUM(ns), 0),
        SUM(kernels)
    FROM (
        SELECT unit_id, role, ns, 0 AS kernels
        FROM time_of_unit
        WHERE role IS NOT NULL AND part <> 'exposed_wait'
        UNION ALL
        SELECT unit_step.unit_id, COALESCE(kernel.role, 'other'), 0, 1
        FROM unit_step
        INNER JOIN kernel USING (step_id)
    )
    GROUP BY unit_id, role
    UNION ALL
    SELECT unit_id, role, CASE part WHEN 'exposed_wait' THEN 'wait' ELSE 'unmatched' END, SUM(ns), NULL
    FROM time_of_unit
    WHERE role IS NOT NULL AND part IN ('exposed_wait', 'exposed_unmatched')
    GROUP BY unit_id, role, part
),
grouped AS (
    SELECT
        member.grain, member.stratum, valued.metric, valued.kind,
        LIST(valued.ns) AS own,
        SUM(valued.ns) FILTER (member.is_typical) AS typical_ns,
        SUM(valued.kernels) FILTER (member.is_typical) AS typical_kernels
    FROM valued
    INNER JOIN member USING (unit_id)
    GROUP BY member.grain, member.stratum, valued.metric, valued.kind
),
padded AS (
    SELECT
        grouped.* EXCLUDE (own),
        stratum.units, stratum.typical,
        list_sort(list_resize(grouped.own, stratum.units, 0)) AS sorted,
        sorted[(stratum.units + 1) // 2] AS median_ns
    FROM grouped
    INNER JOIN stratum ON grouped.grain = stratum.grain AND grouped.stratum = stratum.stratum
)
SELECT
    grain, stratum, metric, kind,
    CASE
        WHEN kind = 'whole' THEN CAST(median_ns AS DOUBLE)
        ELSE COALESCE(typical_ns, 0) / typical
    END AS ns,
    CASE
        WHEN units >= 3 THEN CAST(list_sort([ABS(ns - median_ns) FOR ns IN sorted])[(units + 1) // 2] AS BIGINT)
    END AS mad_ns,
    CASE WHEN kind = 'role' THEN COALESCE(typical_kernels, 0) / typical END AS kernels
FROM padded
ORDER BY grain, stratum, kind, metric
