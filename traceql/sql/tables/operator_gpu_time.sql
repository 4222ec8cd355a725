-- One row per call of a CPU operator during which its thread launched something on a GPU.
-- @scope  run
-- @needs  event_kind, kernel, launch, slice
-- @column id            BIGINT  Call of the operator (slice.id).
-- @column total_gpu_ns  BIGINT  Total duration of the GPU activities that its thread launched while it ran, also by operators inside it, ns.
WITH
-- GPU time launched on each thread up to each launch call.
running AS (
    SELECT
        kernel.rank, launch.tid, launch.ts,
        CAST(SUM(SUM(kernel.dur)) OVER (PARTITION BY kernel.rank, launch.tid ORDER BY launch.ts) AS BIGINT) AS gpu_ns
    FROM kernel
    INNER JOIN launch ON kernel.launch_id = launch.id
    WHERE launch.tid IS NOT NULL
    GROUP BY kernel.rank, launch.tid, launch.ts
),
-- Calls with a launch in them: the last launch before their end is not before their start.
launching AS (
    SELECT operator.id, operator.rank, operator.tid, operator.ts, at_end.gpu_ns
    FROM (
        SELECT slice.id, slice.rank, slice.tid, slice.ts, GREATEST(slice.dur, 0) AS dur  -- files may have negative durations
        FROM slice
        INNER JOIN event_kind USING (rank, cat)
        WHERE event_kind.kind = 'operator'
    ) AS operator
    ASOF INNER JOIN running AS at_end
        ON operator.rank = at_end.rank AND operator.tid = at_end.tid AND operator.ts + operator.dur > at_end.ts
    WHERE at_end.ts >= operator.ts
)
SELECT launching.id, launching.gpu_ns - COALESCE(at_start.gpu_ns, 0) AS total_gpu_ns
FROM launching
ASOF LEFT JOIN running AS at_start
    ON launching.rank = at_start.rank AND launching.tid = at_start.tid AND launching.ts > at_start.ts
