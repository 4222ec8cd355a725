-- One row per engine iteration and device of one rank: when it begins, by the best evidence in the trace.
--
-- The best evidence is an annotation of the engine, then ProfilerStep#N, then frames (see step_name), each
-- on the host or else on the GPU; without any, the forward passes that kernels show. Without these, the whole
-- trace is one iteration.
-- @kind   scratch
-- @scope  rank
-- @needs  activity, annotated_step, forward_pass, launched_activity, recording_span, slice, step_name
-- @column step_id                BIGINT   Number across all ranks and devices, from 0.
-- @column number                 BIGINT   Position among the iterations of its rank, from 0.
-- @column rank                   BIGINT   Rank that ran it.
-- @column device                 BIGINT   Device with GPU activity of the rank; NULL if it has none.
-- @column is_first               BOOLEAN  Whether no device of the rank has a lower number.
-- @column name                   VARCHAR  The annotation or frame; NULL if there is none.
-- @column ts                     BIGINT   Start on the host, ns since the run's first event; as in step.
-- @column dur                    BIGINT   Duration on the host, ns; as in step.
-- @column gpu_ts                 BIGINT   Start on the GPU, ns since the run's first event: activities without a launch call belong to the latest iteration that began before them; NULL if events of the host show the iteration, or the whole trace is one.
-- @column source                 VARCHAR  As in step.
-- @column phase                  VARCHAR  Phase that the name states; NULL if it states none, or only numbers.
-- @column context_requests       BIGINT   What the name states of requests whose prompt is processed (see step_name).
-- @column context_tokens         BIGINT   Their tokens.
-- @column context_kv_tokens      BIGINT   Sum of sk, the length of their keys and values.
-- @column context_squares        BIGINT   Sum of sq * sq.
-- @column context_products       BIGINT   Sum of sq * sk.
-- @column generation_requests    BIGINT   The same of the requests that generate tokens.
-- @column generation_tokens      BIGINT   Their tokens.
-- @column generation_kv_tokens   BIGINT   Sum of sk.
-- @column generation_squares     BIGINT   Sum of sq * sq.
-- @column generation_products    BIGINT   Sum of sq * sk.
WITH on_gpu AS (
    SELECT * FROM annotated_step WHERE gpu_ts IS NOT NULL
),
-- When the host launched what runs during an annotation of the GPU, on the stream that it begins on: an
-- earlier step may still copy its results on another one.
launched AS (
    SELECT annotation.id, MIN(activity.launch_ts) AS ts, MAX(activity.launch_ts) AS last_ts
    FROM launched_activity AS activity
    ASOF INNER JOIN on_gpu AS annotation
        ON activity.track_id = annotation.track_id AND activity.ts >= annotation.gpu_ts
    WHERE activity.ts < annotation.gpu_ts + annotation.gpu_dur
    GROUP BY annotation.id
),
candidate AS (
    SELECT rank, id, name, ts, dur, gpu_ts, NULL AS source FROM annotated_step WHERE gpu_ts IS NULL
    UNION ALL
    SELECT
        on_gpu.rank, on_gpu.id, on_gpu.name,
        COALESCE(launched.ts, on_gpu.gpu_ts) AS ts,
        COALESCE(launched.last_ts - launched.ts, on_gpu.gpu_dur) AS dur,
        on_gpu.gpu_ts, NULL AS source
    FROM on_gpu
    LEFT JOIN launched USING (id)
    UNION ALL
    SELECT rank, id, NULL AS name, ts, dur, gpu_ts, 'forward_pass' AS source FROM forward_pass
    UNION ALL
    SELECT
        rank,
        0 AS id,
        NULL AS name,
        first_ts AS ts,
        last_ts - first_ts AS dur,
        NULL AS gpu_ts,
        'trace' AS source
    FROM recording_span
    WHERE
        rank NOT IN (SELECT rank FROM annotated_step)
        AND rank NOT IN (SELECT rank FROM forward_pass)
),
device AS (
    SELECT
        rank, device,
        device = MIN(device) OVER (PARTITION BY rank) AS is_first
    FROM (
        SELECT DISTINCT slice.rank, COALESCE(activity.device, slice.pid, -1) AS device
        FROM activity
        INNER JOIN slice USING (id)
    )
)
SELECT
    ROW_NUMBER() OVER (ORDER BY candidate.rank, candidate.ts, candidate.id, device.device) - 1 AS step_id,
    DENSE_RANK() OVER (PARTITION BY candidate.rank ORDER BY candidate.ts, candidate.id) - 1 AS number,
    candidate.rank, device.device,
    COALESCE(device.is_first, TRUE) AS is_first,
    candidate.name, candidate.ts, candidate.dur, candidate.gpu_ts,
    COALESCE(candidate.source, step_name.source) AS source,
    step_name.phase,
    step_name.context_requests, step_name.context_tokens, step_name.context_kv_tokens,
    step_name.context_squares, step_name.context_products,
    step_name.generation_requests, step_name.generation_tokens, step_name.generation_kv_tokens,
    step_name.generation_squares, step_name.generation_products
FROM candidate
LEFT JOIN step_name ON candidate.name = step_name.name
LEFT JOIN device ON candidate.rank = device.rank
