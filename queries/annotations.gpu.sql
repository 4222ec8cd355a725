-- One row per rank and annotated range: the GPU time of the kernels that were launched inside it.
--
-- Use it to see what the ranges of a program cost on the GPU: NVTX ranges, record_function, steps of
-- vLLM. A range owns the kernels whose launch call lies within it on the same thread, those of the
-- ranges inside it included; kernels of graph replays belong to the range around the graph launch.
-- So times of ranges inside each other overlap: do not add them up. A range without kernels on the
-- GPU is left out.
-- @param  limit       INTEGER = 30    Maximum number of rows.
-- @param  rank        BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  pattern     VARCHAR = '%'   Only ranges whose name is like this, with % for any text.
-- @column rank        BIGINT   Rank.
-- @column name        VARCHAR  Name of the range.
-- @column calls       BIGINT   Number of ranges of this name with a kernel.
-- @column kernels     BIGINT   Number of GPU activities that they launched.
-- @column gpu_ns      BIGINT   Summed duration of these activities, ns; more than the span if they overlap.
-- @column span_ns     BIGINT   From the start of the first activity of a range to the end of its last one, ns, summed over the ranges.
-- @column host_ns     BIGINT   Duration of the ranges on the host, ns, summed.
-- @key    rank name calls gpu_ns span_ns host_ns kernels
-- @empty  no annotated range launched a kernel; annotate with torch.cuda.nvtx.range or record_function
-- @chart  bar x=gpu_ns y=name color=rank
-- @title  GPU time by annotated range
WITH annotation AS (
    SELECT slice.id, slice.rank, slice.tid, slice.name, slice.ts, slice.dur
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE
        event_kind.kind = 'annotation'
        AND slice.name LIKE $pattern::VARCHAR
        AND ($rank::BIGINT IS NULL OR slice.rank = $rank::BIGINT)
),
-- What was launched, in the order of the instants at which a thread launched it.
launched AS MATERIALIZED (
    SELECT
        launch.rank, launch.tid, launch.ts,
        ROW_NUMBER() OVER (PARTITION BY launch.rank, launch.tid ORDER BY launch.ts) AS place,
        COUNT(*) AS kernels,
        SUM(kernel.dur) AS gpu_ns,
        MIN(kernel.ts) AS first_ts,
        MAX(kernel.ts + kernel.dur) AS last_ts
    FROM kernel
    INNER JOIN launch ON kernel.launch_id = launch.id
    GROUP BY launch.rank, launch.tid, launch.ts
),
-- Comparing each range with all launches of its thread would take time by the square of the recording.
inside AS (
    SELECT
        annotation.id, annotation.rank, annotation.tid,
        UNNEST(generate_series(first_inside.place, last_inside.place)) AS place
    FROM annotation
    ASOF INNER JOIN launched AS first_inside
        ON annotation.rank = first_inside.rank
        AND annotation.tid = first_inside.tid
        AND annotation.ts <= first_inside.ts
    ASOF INNER JOIN launched AS last_inside
        ON annotation.rank = last_inside.rank
        AND annotation.tid = last_inside.tid
        AND annotation.ts + annotation.dur > last_inside.ts
),
owned AS (
    SELECT
        inside.id,
        SUM(launched.kernels) AS kernels,
        SUM(launched.gpu_ns) AS gpu_ns,
        MAX(launched.last_ts) - MIN(launched.first_ts) AS span_ns
    FROM inside
    INNER JOIN launched USING (rank, tid, place)
    GROUP BY inside.id
)
SELECT
    annotation.rank, annotation.name,
    COUNT(*) AS calls,
    CAST(SUM(owned.kernels) AS BIGINT) AS kernels,
    CAST(SUM(owned.gpu_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(owned.span_ns) AS BIGINT) AS span_ns,
    CAST(SUM(annotation.dur) AS BIGINT) AS host_ns
FROM annotation
INNER JOIN owned USING (id)
GROUP BY ALL
ORDER BY gpu_ns DESC, annotation.rank, annotation.name
LIMIT $limit::INTEGER
