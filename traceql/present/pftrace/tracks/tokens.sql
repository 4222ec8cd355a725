-- Samples of the throughput of each step: its tokens divided by the time until the next step
-- begins, or by its own duration if it is the last one. The devices of a rank process the same tokens.
WITH paced AS (
    SELECT
        *,
        LEAD(ts) OVER (PARTITION BY rank ORDER BY ts, step_id) AS next_ts
    FROM (
        SELECT
            *,
            GREATEST(ts + dur, COALESCE(MAX(gpu_ts + gpu_dur) OVER of_iteration, ts + dur)) AS end_ts
        FROM step
        WHERE phase IS NOT NULL
        WINDOW of_iteration AS (PARTITION BY rank, number)
        QUALIFY ROW_NUMBER() OVER (PARTITION BY rank, number ORDER BY device) = 1
    )
),
rate AS (
    SELECT
        rank, ts,
        1e9 * context_tokens / GREATEST(COALESCE(next_ts, end_ts) - ts, 1) AS prompt,
        1e9 * generation_tokens / GREATEST(COALESCE(next_ts, end_ts) - ts, 1) AS generated
    FROM paced
    UNION ALL
    SELECT rank, end_ts, 0, 0 FROM paced WHERE next_ts IS NULL
)
SELECT rank, 'Generated tokens per second' AS track, ts, generated AS value, 'tokens/s' AS unit FROM rate
UNION ALL
SELECT rank, 'Prompt tokens per second', ts, prompt, 'tokens/s' FROM rate
ORDER BY rank, track, ts
