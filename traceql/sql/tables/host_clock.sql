-- One row per rank with launch calls: whether the clocks of its host and its GPUs agree.
--
-- A kernel cannot start before the call that launched it began, and a call that waited for it cannot
-- return before it ended. Recordings of CUDA and ROCm keep to the first to the nanosecond, and to the second within 8 µs;
-- those of Ascend start up to 24 µs early. So kernels count as early from 2 µs on (Ascend: 50 µs), and as
-- late from 20 µs on. Calls that waited are those for a whole device, those for a stream that follow
-- its copy, and copies to the host that block; only on ranks of one GPU.
--
-- Clocks that drift apart show in the shortest time from a launch to the start of its kernel. In each twentieth of a
-- recording it is the same to 4 µs where the host does not run ahead, and far from any line where it does. So
-- it is drift if these times (at least 8, each of 5 launches or more) are within 5 µs of a line that rises
-- or falls by 20 µs or more, and by less than 1% of the time.
-- @scope  rank
-- @needs  classified_kernel, launch, trace
-- @column rank      BIGINT   Rank.
-- @column kernels   BIGINT   GPU activities whose launch call is in the file.
-- @column early     BIGINT   Those that start before their launch.
-- @column early_ns  BIGINT   By how much, at most, ns; 0 if none does.
-- @column waits     BIGINT   Calls that waited for an activity.
-- @column late      BIGINT   Those that returned before it ended.
-- @column late_ns   BIGINT   By how much, at most, ns; 0 if none did.
-- @column drift_ns  BIGINT   How much the GPU clock gains during the recording, ns; 0 if the clocks do not drift apart, or it is unknown.
-- @column agrees    BOOLEAN  Whether the clocks agree: no activity is early, less than a tenth of the waits is late, and they do not drift apart. If not, nothing that compares times of the host and of the GPU is known.
WITH tolerated AS (
    SELECT rank, CASE dialect WHEN 'ascend' THEN 50000 ELSE 2000 END AS ns FROM trace
),
called AS (
    SELECT launch_id, COUNT(*) AS kernels, MIN(ts) AS start_ts, MAX(ts + dur) AS end_ts
    FROM classified_kernel
    WHERE ts IS NOT NULL AND launch_id IS NOT NULL
    GROUP BY launch_id
),
to_host AS (
    SELECT launch_id
    FROM classified_kernel
    -- With the kind twice, DuckDB reads the names of copies alone.
    WHERE kind = 'memcpy' AND CASE kind WHEN 'memcpy' THEN name LIKE '%DtoH%' END AND ts IS NOT NULL AND launch_id IS NOT NULL
),
launched AS MATERIALIZED (
    SELECT
        launch.rank, launch.id, launch.ts, launch.tid, called.kernels, called.start_ts, called.end_ts,
        launch.ts + launch.dur AS return_ts,
        launch.id IN (FROM to_host) AS copies_to_host,
        launch.name LIKE '%Memcpy%' AS is_copy,
        launch.name IN ('cudaMemcpy', 'hipMemcpy', 'hipMemcpyWithStream') AS is_blocking,
        launch.ts - tolerated.ns AS tolerated_ts
    FROM called
    INNER JOIN launch ON called.launch_id = launch.id
    INNER JOIN tolerated ON launch.rank = tolerated.rank
    WHERE launch.ts IS NOT NULL
),
early_kernel AS (  -- of the few launches with any
    SELECT launched.rank, COUNT(*) AS kernels
    FROM (FROM launched WHERE start_ts < tolerated_ts) AS launched
    INNER JOIN classified_kernel AS kernel ON launched.id = kernel.launch_id
    WHERE kernel.ts < launched.tolerated_ts
    GROUP BY launched.rank
),
started AS (
    SELECT
        launched.rank,
        CAST(SUM(launched.kernels) AS BIGINT) AS kernels,
        COALESCE(ANY_VALUE(early_kernel.kernels), 0) AS early,
        COALESCE(MAX(launched.ts - launched.start_ts) FILTER (launched.start_ts < launched.tolerated_ts), 0) AS early_ns
    FROM launched
    LEFT JOIN early_kernel USING (rank)
    GROUP BY launched.rank
),
part AS (
    SELECT
        launched.rank,
        floor(20.0 * (launched.ts - span.ts) / span.dur) AS number,
        arg_min(launched.ts - span.ts, launched.start_ts - launched.ts) AS ts,
        MIN(launched.start_ts - launched.ts) AS least_ns,
        ANY_VALUE(span.dur) AS dur
    FROM launched
    INNER JOIN (
        SELECT rank, MIN(ts) AS ts, GREATEST(MAX(ts) - MIN(ts), 1) AS dur FROM launched GROUP BY rank
    ) AS span USING (rank)
    GROUP BY launched.rank, number
    HAVING COUNT(*) >= 5
),
line AS (
    SELECT
        rank,
        regr_slope(least_ns, ts) AS slope,
        regr_intercept(least_ns, ts) AS offset_ns,
        ANY_VALUE(dur) AS dur,
        list({'ts': ts, 'least_ns': least_ns}) AS parts
    FROM part
    GROUP BY rank
    HAVING COUNT(*) >= 8
),
drift AS (
    SELECT rank, CAST(round(slope * dur) AS BIGINT) AS ns
    FROM line
    WHERE
        abs(slope) < 0.01
        AND abs(slope * dur) >= 20000
        AND list_max(list_transform(parts, lambda one: abs(one.least_ns - offset_ns - slope * one.ts))) <= 5000
),
waiting AS (
    SELECT
        rank, tid, id, ts,
        ts + dur AS return_ts,
        contains(name, 'StreamSynchronize') AS is_of_stream
    FROM launch
    WHERE name LIKE '%Synchronize%' AND regexp_matches(name, '^(cuda|cu|hip)(Device|Ctx|Stream)Synchronize')
),
-- The latest launch of the thread before it.
awaited AS (
    SELECT waiting.rank, waiting.return_ts, launched.end_ts
    FROM waiting
    ASOF INNER JOIN launched
        ON waiting.rank = launched.rank AND waiting.tid = launched.tid AND waiting.ts >= launched.return_ts
    WHERE NOT waiting.is_of_stream OR (launched.is_copy AND launched.copies_to_host)
    UNION ALL
    SELECT rank, return_ts, end_ts
    FROM launched
    WHERE copies_to_host AND is_blocking
),
ended AS (
    SELECT
        rank,
        COUNT(*) AS waits,
        COUNT(*) FILTER (end_ts > return_ts + 20000) AS late,
        COALESCE(MAX(end_ts - return_ts) FILTER (end_ts > return_ts + 20000), 0) AS late_ns
    FROM awaited
    WHERE rank IN (SELECT rank FROM classified_kernel GROUP BY rank HAVING MIN(device) = MAX(device))
    GROUP BY rank
)
SELECT
    started.rank, started.kernels, started.early, started.early_ns,
    COALESCE(ended.waits, 0) AS waits,
    COALESCE(ended.late, 0) AS late,
    COALESCE(ended.late_ns, 0) AS late_ns,
    COALESCE(drift.ns, 0) AS drift_ns,
    started.early = 0 AND COALESCE(ended.late * 10 < ended.waits, TRUE) AND drift.ns IS NULL AS agrees
FROM started
LEFT JOIN ended USING (rank)
LEFT JOIN drift USING (rank)
