-- One row per class of steps and role that communicates: what its typical step sends, and how long that takes.
-- @scope  run
-- @needs  class_time, collective, kernel, step_class
-- @empty_unless collective
-- @column class_id  BIGINT   Class of steps (step_class.class_id).
-- @column role      VARCHAR  Role of the kernels (kernel.role); NULL if unknown.
-- @column op        VARCHAR  Operation, as in collective; NULL if the role has several.
-- @column ranks     BIGINT   Ranks that take part; NULL if unknown.
-- @column calls     DOUBLE   Mean number of operations in a step.
-- @column bytes     DOUBLE   Mean size of the whole buffer, bytes; NULL if unknown.
-- @column ns        DOUBLE   Mean time that nothing else hides, without known waiting, ns.
WITH called AS (
    SELECT
        member.class_id,
        kernel.role,
        CASE WHEN MIN(collective.op) = MAX(collective.op) THEN MIN(collective.op) END AS op,
        CASE WHEN MIN(collective.group_size) = MAX(collective.group_size) THEN MIN(collective.group_size) END AS ranks,
        CAST(COUNT(*) AS DOUBLE) / ANY_VALUE(member.steps) AS calls,
        CASE WHEN COUNT(*) = COUNT(collective.bytes) THEN AVG(collective.bytes) END AS bytes
    FROM (SELECT class_id, LEN(step_ids) AS steps, UNNEST(step_ids) AS step_id FROM step_class) AS member
    INNER JOIN kernel ON member.step_id = kernel.step_id
    INNER JOIN collective ON kernel.id = collective.kernel_id
    GROUP BY member.class_id, kernel.role
),
lasted AS (
    SELECT class_id, role, SUM(ns ORDER BY ns) AS ns
    FROM class_time
    WHERE part IN ('exposed_transfer', 'exposed_unmatched')
    GROUP BY class_id, role
)
SELECT
    called.class_id,
    called.role,
    called.op,
    called.ranks,
    called.calls,
    called.bytes,
    COALESCE(lasted.ns, 0) AS ns
FROM called
LEFT JOIN lasted ON called.class_id = lasted.class_id AND called.role IS NOT DISTINCT FROM lasted.role
ORDER BY ALL
