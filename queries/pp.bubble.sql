-- One row per rank of a pipeline: its bubble, when it does not compute but another stage does.
--
-- Use it to see how well the pipeline is filled. A rank computes while a kernel runs on its GPU
-- that is neither communication nor a copy. Another stage computes while such a kernel runs on a
-- GPU of another stage of the same replica.
--
-- computing + bubble + neither = window, exactly, and
-- comm + copy + host + launch + edge = bubble, exactly.
--
-- Times are on the reference clock. The window is the time in which all ranks of the replica were
-- recorded, from the first kernel of any of them to the last one. ideal_pct is
-- (p-1)/(m+p-1) for p stages and m micro-batches that do not wait for each other. Micro-batches of
-- the same request do wait for each other, so few requests in flight mean larger bubbles.
-- @column rank           BIGINT   Rank.
-- @column pp_rank        BIGINT   Pipeline stage of the rank.
-- @column dp_rank        BIGINT   Data-parallel replica of the rank.
-- @column window_ns      BIGINT   Length of the window, ns.
-- @column computing_ns   BIGINT   Time in which the rank computed, ns.
-- @column bubble_ns      BIGINT   Time in which it did not compute and another stage did, ns.
-- @column neither_ns     BIGINT   Time in which no stage computed, ns.
-- @column bubble_pct     DOUBLE   bubble_ns in percent of the window.
-- @column comm_ns        BIGINT   Part of the bubble in which it waited for data or transferred data in its own operations, ns.
-- @column copy_ns        BIGINT   Part of the bubble in which only copies ran, ns.
-- @column host_ns        BIGINT   Part of the bubble in which its host had launched nothing (gap causes host and sync), ns.
-- @column launch_ns      BIGINT   Part of the bubble in gaps of other causes, ns.
-- @column edge_ns        BIGINT   Part of the bubble before its first kernel or after its last one, ns.
-- @column microbatches   BIGINT   Steps with tokens that its GPU began in the window.
-- @column ideal_pct      DOUBLE   Bubble if micro-batches followed each other without waiting, percent of the window.
-- @column layout_source  VARCHAR  How the position of the rank in the layout is known.
-- @key    rank pp_rank bubble_ns bubble_pct computing_ns comm_ns host_ns launch_ns edge_ns ideal_pct
-- @empty  the run has one stage, or its pipeline stages were not recognized; see parallel.timeline and the table layout
-- @chart  stacked x=computing_ns,bubble_ns,neither_ns y=rank
-- @title  Time of each pipeline stage: computing, bubble, and neither
WITH place AS (
    SELECT layout.*, clock.offset_ns, clock.drift, clock.at_ns
    FROM layout
    INNER JOIN clock USING (rank)
    WHERE layout.pp_size > 1
),
recorded AS (
    SELECT slice.rank, MIN(slice.ts) AS ts, MAX(slice.ts + slice.dur) AS end_ts
    FROM slice
    INNER JOIN place USING (rank)
    GROUP BY slice.rank
),
state AS (
    SELECT
        place.rank, place.pp_rank, place.dp_rank,
        on_reference_clock(device_timeline.ts, place.offset_ns, place.drift, place.at_ns) AS ts,
        on_reference_clock(device_timeline.ts + device_timeline.dur, place.offset_ns, place.drift, place.at_ns) AS end_ts,
        CASE
            WHEN device_timeline.part = 'computing' THEN 'kernel'
            WHEN device_timeline.part = 'exposed_copy' THEN 'copy'
            WHEN device_timeline.part <> 'idle' THEN 'communication'
            WHEN device_timeline.cause IN ('host', 'sync') THEN 'host'
            ELSE 'launch'
        END AS doing
    FROM device_timeline
    INNER JOIN place USING (rank)
),
span AS (
    SELECT rank, dp_rank, MIN(ts) AS ts, MAX(end_ts) AS end_ts FROM state GROUP BY rank, dp_rank
),
shared_window AS (
    SELECT
        span.dp_rank,
        GREATEST(MIN(span.ts), MAX(
            on_reference_clock(recorded.ts, place.offset_ns, place.drift, place.at_ns)
        )) AS ts,
        LEAST(MAX(span.end_ts), MIN(
            on_reference_clock(recorded.end_ts, place.offset_ns, place.drift, place.at_ns)
        )) AS end_ts
    FROM span
    INNER JOIN place ON span.rank = place.rank
    INNER JOIN recorded ON span.rank = recorded.rank
    GROUP BY span.dp_rank
),
-- The time before a rank's first kernel and after its last one.
around AS (
    SELECT span.rank, span.dp_rank, shared_window.ts, span.ts AS end_ts
    FROM span
    INNER JOIN shared_window USING (dp_rank)
    UNION ALL
    SELECT span.rank, span.dp_rank, span.end_ts, shared_window.end_ts
    FROM span
    INNER JOIN shared_window USING (dp_rank)
),
clipped AS (
    SELECT
        own.rank, place.pp_rank, place.dp_rank, own.doing,
        GREATEST(own.ts, shared_window.ts) AS ts,
        LEAST(own.end_ts, shared_window.end_ts) AS end_ts
    FROM (
        SELECT rank, ts, end_ts, doing FROM state
        UNION ALL
        SELECT rank, ts, end_ts, 'edge' FROM around
    ) AS own
    INNER JOIN place ON own.rank = place.rank
    INNER JOIN shared_window ON place.dp_rank = shared_window.dp_rank
    WHERE own.ts < shared_window.end_ts AND own.end_ts > shared_window.ts AND own.end_ts > own.ts
),
-- When any rank of a stage begins or ends to compute.
edge AS (
    SELECT pp_rank, dp_rank, ts, 1 AS computing FROM state WHERE doing = 'kernel'
    UNION ALL
    SELECT pp_rank, dp_rank, end_ts, -1 FROM state WHERE doing = 'kernel'
),
stage AS (
    SELECT
        pp_rank, dp_rank, ts,
        SUM(computing) OVER in_order > 0 AS computing,
        (LEAD(ts) OVER in_order IS DISTINCT FROM ts) AS is_last
    FROM edge
    WINDOW in_order AS (PARTITION BY pp_rank, dp_rank ORDER BY ts ROWS UNBOUNDED PRECEDING)
),
change AS (
    SELECT pp_rank, dp_rank, ts, CASE WHEN computing THEN 1 ELSE -1 END AS stages
    FROM (FROM stage WHERE is_last)
    QUALIFY computing IS DISTINCT FROM LAG(computing, 1, FALSE) OVER (
        PARTITION BY pp_rank, dp_rank ORDER BY ts
    )
),
instant AS (
    SELECT rank, ts, doing, 0 AS stages FROM clipped
    UNION ALL
    SELECT rank, MAX(end_ts), 'end', 0 FROM clipped GROUP BY rank
    UNION ALL
    SELECT place.rank, change.ts, NULL, change.stages
    FROM change
    INNER JOIN place ON change.dp_rank = place.dp_rank AND change.pp_rank <> place.pp_rank
),
-- If several changes happen at one instant, only the last one is followed by an interval.
swept AS (
    SELECT
        rank,
        LAST_VALUE(doing IGNORE NULLS) OVER in_order AS doing,
        SUM(stages) OVER in_order > 0 AS elsewhere,
        LEAD(ts) OVER in_order - ts AS dur
    FROM instant
    WINDOW in_order AS (PARTITION BY rank ORDER BY ts ROWS UNBOUNDED PRECEDING)
),
parted AS (
    SELECT
        rank,
        CAST(SUM(dur) AS BIGINT) AS window_ns,
        CAST(COALESCE(SUM(dur) FILTER (doing = 'kernel'), 0) AS BIGINT) AS computing_ns,
        CAST(COALESCE(SUM(dur) FILTER (elsewhere AND doing <> 'kernel'), 0) AS BIGINT) AS bubble_ns,
        CAST(COALESCE(SUM(dur) FILTER (elsewhere AND doing = 'communication'), 0) AS BIGINT) AS comm_ns,
        CAST(COALESCE(SUM(dur) FILTER (elsewhere AND doing = 'copy'), 0) AS BIGINT) AS copy_ns,
        CAST(COALESCE(SUM(dur) FILTER (elsewhere AND doing = 'host'), 0) AS BIGINT) AS host_ns,
        CAST(COALESCE(SUM(dur) FILTER (elsewhere AND doing = 'launch'), 0) AS BIGINT) AS launch_ns,
        CAST(COALESCE(SUM(dur) FILTER (elsewhere AND doing = 'edge'), 0) AS BIGINT) AS edge_ns
    FROM swept
    WHERE doing <> 'end'
    GROUP BY rank
),
batch AS (
    SELECT aligned_step.rank, COUNT(*) AS microbatches
    FROM aligned_step
    INNER JOIN step USING (step_id)
    INNER JOIN place ON aligned_step.rank = place.rank
    INNER JOIN shared_window ON place.dp_rank = shared_window.dp_rank
    WHERE
        step.phase IS DISTINCT FROM 'idle'
        AND aligned_step.ts BETWEEN shared_window.ts AND shared_window.end_ts
    GROUP BY aligned_step.rank
)
SELECT
    parted.rank, place.pp_rank, place.dp_rank, parted.window_ns, parted.computing_ns,
    parted.bubble_ns,
    parted.window_ns - parted.computing_ns - parted.bubble_ns AS neither_ns,
    100.0 * parted.bubble_ns / NULLIF(parted.window_ns, 0) AS bubble_pct,
    parted.comm_ns, parted.copy_ns, parted.host_ns, parted.launch_ns, parted.edge_ns,
    COALESCE(batch.microbatches, 0) AS microbatches,
    100.0 * (place.pp_size - 1) / NULLIF(COALESCE(batch.microbatches, 0) + place.pp_size - 1, 0) AS ideal_pct,
    place.source AS layout_source
FROM parted
INNER JOIN place USING (rank)
LEFT JOIN batch USING (rank)
ORDER BY place.dp_rank, place.pp_rank, parted.rank
