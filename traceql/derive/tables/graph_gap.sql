-- At most one row per rank: the mean time between the kernels of a replayed graph, in which nothing runs.
-- @scope  run
-- @needs  class_time, fixed_cost, step_class, trace
-- @column rank    BIGINT   Rank.
-- @column ns      DOUBLE   Mean idle time for each kernel, ns.
-- @column source  VARCHAR  recorded (steps of the rank that are one graph), or fixed cost (known of such a device).
WITH own AS (
    SELECT
        step_class.rank,
        SUM(class_time.ns ORDER BY class_time.ns) FILTER (class_time.cause = 'launch')
        / SUM(class_time.kernels ORDER BY class_time.kernels) AS ns,
        'recorded' AS source
    FROM class_time
    INNER JOIN step_class USING (class_id)
    WHERE step_class.in_full_graph
    GROUP BY step_class.rank
),
stated AS (
    SELECT trace.rank, arg_min(fixed_cost.ns, fixed_cost.position) AS ns, 'fixed cost' AS source
    FROM trace
    INNER JOIN fixed_cost ON fixed_cost.cost = 'graph_gap' AND regexp_matches(trace.device_name, fixed_cost.device)
    GROUP BY trace.rank
)
FROM own WHERE ns IS NOT NULL
UNION ALL
FROM stated WHERE rank NOT IN (SELECT rank FROM own WHERE ns IS NOT NULL)
ORDER BY rank
