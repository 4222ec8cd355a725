-- One row per operation that its rank may have launched after a loss of kernel records.
--
-- From there on, the order of operations no longer shows which ones of several ranks are the same. Among them are those of a
-- graph that was launched just before the first lost launch: its last kernels may be lost too.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, launch, operation, unrecorded_launch
-- @empty_unless unrecorded_launch WHERE what = 'kernel' AND reason = 'lost'
-- @column kernel_id  BIGINT  Kernel of the operation (operation.kernel_id).
WITH loss AS (
    SELECT rank, MIN(ts) AS ts FROM unrecorded_launch
    WHERE what = 'kernel' AND reason = 'lost'
    GROUP BY rank
),
launched AS (
    SELECT
        kernel.id AS kernel_id,
        kernel.rank, kernel.launch_id, kernel.in_graph,
        loss.ts AS lost_ts,
        COALESCE(launch.ts, kernel.ts) AS ts
    FROM kernel
    INNER JOIN loss ON kernel.rank = loss.rank
    LEFT JOIN launch ON kernel.launch_id = launch.id
),
last_graph AS (
    SELECT arg_max(launch_id, ts) AS launch_id
    FROM launched
    WHERE launch_id IS NOT NULL AND ts < lost_ts
    GROUP BY rank
    HAVING arg_max(in_graph, ts)
)
SELECT launched.kernel_id
FROM launched
INNER JOIN operation ON launched.kernel_id = operation.kernel_id
WHERE launched.ts >= launched.lost_ts OR launched.launch_id IN (FROM last_graph)
