-- One row per rank with launch calls: whether the clocks of its host and its GPUs agree.
--
-- A kernel cannot start before the call that launched it began, and a call that waited for it cannot
-- return before it ended. Recordings of CUDA and ROCm keep to the first to the nanosecond, and to the second within 8 µs;
-- those of Ascend start up to 24 µs early. So kernels count as early from 2 µs on (Ascend: 50 µs), and as
-- late from 20 µs on. Calls that waited are those for a whole device, those for a stream that follow
-- its copy, and copies to the host that block; only on ranks of one GPU.
-- @scope  rank
-- @needs  classified_kernel, launch, trace
-- @column rank      BIGINT   Rank.
-- @column kernels   BIGINT   GPU activities whose launch call is in the file.
-- @column early     BIGINT   Those that start before their launch.
-- @column early_ns  BIGINT   By how much, at most, ns; 0 if none does.
-- @column waits     BIGINT   Calls that waited for an activity.
-- @column late      BIGINT   Those that returned before it ended.
-- @column late_ns   BIGINT   By how much, at most, ns; 0 if none did.
-- @column agrees    BOOLEAN  Whether the clocks agree: no activity is early, and less than a tenth of the waits is late. If not, nothing that compares times of the host and of the GPU is known.
WITH launched AS (
    SELECT
        kernel.rank, kernel.launch_id, kernel.ts AS start_ts, kernel.ts + kernel.dur AS end_ts,
        launch.ts, launch.tid, launch.name,
        launch.ts + launch.dur AS return_ts,
        kernel.name AS kernel_name
    FROM classified_kernel AS kernel
    INNER JOIN launch ON kernel.launch_id = launch.id
    WHERE kernel.ts IS NOT NULL
),
started AS (
    SELECT
        launched.rank,
        COUNT(*) AS kernels,
        COUNT(*) FILTER (launched.start_ts < launched.ts - tolerated.ns) AS early,
        COALESCE(MAX(launched.ts - launched.start_ts) FILTER (launched.start_ts < launched.ts - tolerated.ns), 0) AS early_ns
    FROM launched
    INNER JOIN (
        SELECT rank, CASE dialect WHEN 'ascend' THEN 50000 ELSE 2000 END AS ns FROM trace
    ) AS tolerated USING (rank)
    GROUP BY launched.rank
),
waiting AS (
    SELECT
        rank, tid, id, ts,
        ts + dur AS return_ts,
        contains(name, 'StreamSynchronize') AS is_of_stream
    FROM launch
    WHERE regexp_matches(name, '^(cuda|cu|hip)(Device|Ctx|Stream)Synchronize')
),
-- The latest launch of the thread before it.
awaited AS (
    SELECT waiting.rank, waiting.return_ts, launched.end_ts
    FROM waiting
    ASOF INNER JOIN launched
        ON waiting.rank = launched.rank AND waiting.tid = launched.tid AND waiting.ts >= launched.return_ts
    WHERE NOT waiting.is_of_stream OR (contains(launched.name, 'Memcpy') AND contains(launched.kernel_name, 'DtoH'))
    UNION ALL
    SELECT rank, return_ts, end_ts
    FROM launched
    WHERE contains(kernel_name, 'DtoH') AND regexp_matches(name, '^(cuda|hip)Memcpy(WithStream)?$')
),
ended AS (
    SELECT
        rank,
        COUNT(*) AS waits,
        COUNT(*) FILTER (end_ts > return_ts + 20000) AS late,
        COALESCE(MAX(end_ts - return_ts) FILTER (end_ts > return_ts + 20000), 0) AS late_ns
    FROM awaited
    WHERE rank IN (SELECT rank FROM classified_kernel GROUP BY rank HAVING COUNT(DISTINCT device) = 1)
    GROUP BY rank
)
SELECT
    started.rank, started.kernels, started.early, started.early_ns,
    COALESCE(ended.waits, 0) AS waits,
    COALESCE(ended.late, 0) AS late,
    COALESCE(ended.late_ns, 0) AS late_ns,
    started.early = 0 AND COALESCE(ended.late * 10 < ended.waits, TRUE) AS agrees
FROM started
LEFT JOIN ended USING (rank)
