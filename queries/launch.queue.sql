-- One row per rank and time bucket: number of kernels that are launched and have not started.
--
-- Use it to see whether the host runs ahead of the GPU. If the queue is empty while the GPU is
-- idle, the host is late. A kernel is queued from the beginning of its launch call to its start. A
-- graph launch queues all its kernels at once.
-- @param  buckets      INTEGER = 100   Number of time buckets per rank.
-- @param  rank         BIGINT  = NULL  Only this rank; all ranks by default.
-- @range  buckets      1 100000
-- @column rank         BIGINT  Rank.
-- @column ts           BIGINT  Start of the time bucket, ns since the run's first event.
-- @column dur          BIGINT  Length of the time bucket, ns.
-- @column mean_queued  DOUBLE  Kernels in the queue, average over time.
-- @column max_queued   BIGINT  Kernels in the queue, maximum.
-- @key    rank ts mean_queued max_queued dur
-- @empty  no kernel has a launch call in the trace; record CPU and GPU activities
-- @chart  line x=ts y=mean_queued color=rank
-- @title  Kernels launched and not yet started
WITH number AS (
    SELECT $buckets::INTEGER AS buckets
),
level AS (
    SELECT
        rank, ts,
        LEAD(ts) OVER (PARTITION BY rank ORDER BY ts) AS end_ts,
        queued
    FROM launch_queue
    WHERE $rank::BIGINT IS NULL OR rank = $rank::BIGINT
),
span AS (
    SELECT
        rank,
        MIN(ts) AS ts,
        GREATEST(1, CAST(CEIL((MAX(ts) - MIN(ts)) / number.buckets) AS BIGINT)) AS width
    FROM level
    CROSS JOIN number
    GROUP BY rank, number.buckets
),
-- A level that lasts for several time buckets counts in each of them.
numbered AS (
    SELECT
        level.rank, level.ts, level.end_ts, level.queued,
        span.ts AS span_ts,
        span.width,
        UNNEST(
            range((level.ts - span.ts) // span.width, (level.end_ts - 1 - span.ts) // span.width + 1)
        ) AS number
    FROM level
    INNER JOIN span USING (rank)
    WHERE level.end_ts IS NOT NULL
),
piece AS (
    SELECT
        rank,
        span_ts + width * number AS bucket_ts,
        queued,
        LEAST(end_ts, span_ts + width * (number + 1)) - GREATEST(ts, span_ts + width * number) AS dur
    FROM numbered
)
SELECT
    rank,
    bucket_ts AS ts,
    CAST(SUM(dur) AS BIGINT) AS dur,
    SUM(queued * dur) / SUM(dur) AS mean_queued,
    CAST(MAX(queued) AS BIGINT) AS max_queued
FROM piece
GROUP BY rank, bucket_ts
ORDER BY rank, bucket_ts
