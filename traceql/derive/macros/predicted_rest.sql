-- Waiting, copies and idle time of each case, by cause; for query whatif.
--
-- Computings are those of predicted_computing.
-- @kind   table macro
-- @scope  run
-- @needs  class_time, fixed_cost
CREATE OR REPLACE MACRO predicted_rest(cases, classes, recording, computings, without_wait) AS TABLE
WITH case_size AS (
    FROM query_table(cases)
),
class AS (
    FROM query_table(classes)
),
recorded AS (
    FROM query_table(recording)
),
computed AS (
    FROM query_table(computings)
),
counted_kernel AS (
    SELECT class_id, SUM(kernels ORDER BY kernels) AS kernels FROM class_time GROUP BY class_id
),
grown AS (
    SELECT
        case_id,
        CASE WHEN COUNT(*) = COUNT(predicted_ns) THEN SUM(predicted_ns - measured_ns ORDER BY predicted_ns - measured_ns) END AS ns
    FROM computed
    GROUP BY case_id
),
other_time AS (
    SELECT
        case_size.case_id,
        case_size.tp,
        case_size.in_graph AND NOT base.in_graph AS goes_to_graph,
        base.in_graph AND NOT case_size.in_graph AS leaves_graph,
        base.in_full_graph,
        counted_kernel.kernels,
        grown.ns AS grown_ns,
        class_time.part,
        class_time.cause,
        SUM(class_time.ns ORDER BY class_time.ns) AS ns
    FROM case_size
    INNER JOIN class AS base ON case_size.base_id = base.class_id
    INNER JOIN class_time ON base.class_id = class_time.class_id
    LEFT JOIN counted_kernel ON base.class_id = counted_kernel.class_id
    LEFT JOIN grown ON case_size.case_id = grown.case_id
    WHERE class_time.part IN ('idle', 'exposed_copy', 'other_step', 'exposed_wait')
    GROUP BY ALL
    UNION ALL
    -- Ranks that the recording does not have would also wait.
    SELECT case_size.case_id, case_size.tp, FALSE, FALSE, NULL, NULL, NULL, 'exposed_wait', NULL, NULL
    FROM case_size
    CROSS JOIN recorded
    WHERE
        case_size.tp > 1
        AND NOT EXISTS (
            SELECT 1
            FROM class_time
            WHERE class_time.class_id = case_size.base_id AND class_time.part IN ('exposed_wait', 'exposed_unmatched')
        )
    UNION ALL
    SELECT case_size.case_id, case_size.tp, TRUE, FALSE, FALSE, counted_kernel.kernels, NULL, 'idle', 'launch', 0
    FROM case_size
    INNER JOIN class AS base ON case_size.base_id = base.class_id
    INNER JOIN counted_kernel ON base.class_id = counted_kernel.class_id
    WHERE
        case_size.in_graph AND NOT base.in_graph
        AND NOT EXISTS (
            SELECT 1
            FROM class_time
            WHERE class_time.class_id = base.class_id AND class_time.part = 'idle' AND class_time.cause = 'launch'
        )
),
-- The mean time between the kernels of a replayed graph, in which nothing runs: that of recorded steps
-- that are one graph, else that of such a device.
recorded_gap AS (
    SELECT
        SUM(class_time.ns ORDER BY class_time.ns) FILTER (class_time.cause = 'launch')
        / SUM(class_time.kernels ORDER BY class_time.kernels) AS ns
    FROM class_time
    INNER JOIN class USING (class_id)
    WHERE class.in_full_graph
),
stated_gap AS (
    SELECT arg_min(fixed_cost.ns, fixed_cost.position) AS ns
    FROM recorded
    INNER JOIN fixed_cost ON fixed_cost.cost = 'graph_gap' AND regexp_matches(recorded.device_name, fixed_cost.device)
),
graph_gap AS (
    SELECT
        COALESCE(recorded_gap.ns, stated_gap.ns) AS ns,
        CASE WHEN recorded_gap.ns IS NOT NULL THEN 'recorded' WHEN stated_gap.ns IS NOT NULL THEN 'fixed cost' END AS source
    FROM recorded_gap
    CROSS JOIN stated_gap
),
ruled AS (
    SELECT
        *,
        CASE
            WHEN part = 'exposed_wait' AND without_wait THEN 'left out'
            WHEN part = 'exposed_wait' AND is_left_alone THEN 'none with one rank'
            WHEN part = 'exposed_wait' AND tp <> (SELECT tp_size FROM recorded) THEN 'unknown'
            WHEN part = 'idle' AND goes_to_graph AND cause = 'launch' THEN 'gaps of a graph'
            WHEN part = 'idle' AND goes_to_graph THEN 'none in a graph'
            WHEN part = 'idle' AND leaves_graph THEN 'unknown'
            WHEN part = 'idle' AND cause = 'host' AND NOT in_full_graph AND grown_ns IS NULL THEN 'unknown'
            WHEN part = 'idle' AND cause = 'host' AND NOT in_full_graph AND grown_ns <> 0 THEN 'host time as measured'
            ELSE 'as measured'
        END AS rule
    FROM (
        SELECT
            other_time.*,
            other_time.tp = 1 AND recorded.tp_size > 1 AND NOT COALESCE(recorded.has_stages, FALSE) AS is_left_alone
        FROM other_time
        CROSS JOIN recorded
    )
)
SELECT
    ruled.case_id,
    CASE ruled.part
        WHEN 'idle' THEN 'idle: ' || COALESCE(ruled.cause, 'unknown')
        WHEN 'exposed_wait' THEN 'waiting'
        WHEN 'exposed_copy' THEN 'copies'
        ELSE ruled.part
    END AS part,
    CASE ruled.part WHEN 'exposed_wait' THEN 'waiting' WHEN 'exposed_copy' THEN 'copy' ELSE ruled.part END AS kind,
    CASE ruled.part WHEN 'exposed_wait' THEN 3 WHEN 'exposed_copy' THEN 4 WHEN 'idle' THEN 5 ELSE 6 END AS place,
    ruled.ns AS measured_ns,
    CASE
        WHEN ruled.rule IN ('left out', 'none with one rank', 'none in a graph') THEN 0
        WHEN ruled.rule = 'gaps of a graph' THEN ruled.kernels * graph_gap.ns
        WHEN ruled.rule = 'host time as measured' THEN GREATEST(ruled.ns - ruled.grown_ns, 0)
        WHEN ruled.rule = 'as measured' THEN ruled.ns
    END AS predicted_ns,
    NULL AS floor_ns,
    CASE ruled.rule WHEN 'gaps of a graph' THEN 'gaps of a graph, ' || COALESCE(graph_gap.source, 'unknown') ELSE ruled.rule END AS how,
    NULL AS warning
FROM ruled
CROSS JOIN graph_gap
