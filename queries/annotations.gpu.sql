-- One row per rank and annotated range: the GPU time of the kernels below it.
--
-- Use it to see what the ranges of a program cost on the GPU: NVTX ranges, record_function, steps of
-- an engine. A range owns the kernels whose launch call lies within it on the same thread, those of
-- the ranges inside it included; kernels of graph replays belong to the range around the graph
-- launch. A range whose name is recorded on the GPU alone owns the kernels that begin within it
-- on its stream. So times of ranges inside each other overlap: do not add them up. A range without
-- kernels is left out.
-- @param  limit       INTEGER = 30     Maximum number of rows.
-- @param  rank        BIGINT  = NULL   Only this rank; all ranks by default.
-- @param  pattern     VARCHAR = '%'    Only ranges whose name is like this, with % for any text.
-- @param  by_kernel   BOOLEAN = FALSE  Whether to list the kernels: one row per range and name of a kernel.
-- @column rank        BIGINT   Rank.
-- @column name        VARCHAR  Name of the range.
-- @column calls       BIGINT   Number of ranges of this name with a kernel.
-- @column kernels     BIGINT   Number of GPU activities that they own.
-- @column gpu_ns      BIGINT   Summed duration of these activities, ns; more than the span if they overlap.
-- @column span_ns     BIGINT   From the start of the first activity of a range to the end of its last one, ns, summed over the ranges.
-- @column host_ns     BIGINT   Duration of the ranges on the host, ns, summed; NULL for ranges of the GPU.
-- @column busy_ns     BIGINT   Time in which one of them ran at least, ns, summed over the devices.
-- @column kernel      VARCHAR  Name of the kernel where kernels are listed; else NULL.
-- @column source      VARCHAR  How the kernels were found: launch (from launch calls in a range of the host) or gpu (by time, in a range of the GPU).
-- @key    rank name kernel calls gpu_ns busy_ns span_ns host_ns kernels
-- @empty  no annotated range has a kernel; annotate with torch.cuda.nvtx.range or record_function
-- @chart  bar x=gpu_ns y=name color=rank
-- @title  GPU time by annotated range
WITH annotation AS MATERIALIZED (
    SELECT
        slice.id, slice.rank, slice.name, slice.ts, slice.dur,
        event_kind.kind = 'gpu_annotation' AS on_gpu,
        slice.pid, slice.tid
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE
        event_kind.kind IN ('annotation', 'gpu_annotation')
        AND slice.name LIKE $pattern::VARCHAR
        AND ($rank::BIGINT IS NULL OR slice.rank = $rank::BIGINT)
),
-- The profiler repeats ranges of the host on the GPU.
range AS MATERIALIZED (
    SELECT * FROM annotation WHERE NOT on_gpu
    UNION ALL
    SELECT * FROM annotation ANTI JOIN (FROM annotation WHERE NOT on_gpu) AS on_host USING (rank, name) WHERE on_gpu
),
launched AS (
    SELECT launch.rank, FALSE AS on_gpu, NULL AS device, launch.tid AS lane, launch.ts, kernel.id
    FROM kernel
    INNER JOIN launch ON kernel.launch_id = launch.id
    UNION ALL
    SELECT rank, TRUE, device, stream, ts, id FROM kernel WHERE rank IN (SELECT rank FROM range WHERE on_gpu)
),
-- The instants at which a thread launched something, or a stream began it, in their order.
instant_of AS MATERIALIZED (
    SELECT
        *, COALESCE(device, -1) AS place_of,
        DENSE_RANK() OVER (PARTITION BY rank, on_gpu, device, lane ORDER BY ts) AS place
    FROM launched
),
lane_range AS (
    SELECT *, IF(on_gpu, COALESCE(pid, -1), -1) AS place_of, tid AS lane FROM range
),
-- Comparing each range with all launches of its thread would take time by the square of the recording.
inside AS (
    SELECT
        lane_range.id AS range_id, lane_range.rank, lane_range.on_gpu, lane_range.place_of, lane_range.lane,
        UNNEST(generate_series(first_inside.place, last_inside.place)) AS place
    FROM lane_range
    ASOF INNER JOIN instant_of AS first_inside
        ON lane_range.rank = first_inside.rank AND lane_range.on_gpu = first_inside.on_gpu
        AND lane_range.place_of = first_inside.place_of AND lane_range.lane = first_inside.lane
        AND lane_range.ts <= first_inside.ts
    ASOF INNER JOIN instant_of AS last_inside
        ON lane_range.rank = last_inside.rank AND lane_range.on_gpu = last_inside.on_gpu
        AND lane_range.place_of = last_inside.place_of AND lane_range.lane = last_inside.lane
        AND lane_range.ts + lane_range.dur > last_inside.ts
),
owned AS (
    SELECT
        inside.rank, range.name, inside.on_gpu, inside.range_id, range.dur AS host_ns,
        IF($by_kernel::BOOLEAN, kernel.name, NULL) AS kernel,
        kernel.device, kernel.ts, kernel.ts + kernel.dur AS end_ts, kernel.dur
    FROM inside
    INNER JOIN instant_of USING (rank, on_gpu, place_of, lane, place)
    INNER JOIN kernel ON instant_of.id = kernel.id
    INNER JOIN range ON inside.range_id = range.id
),
busy AS (
    SELECT rank, name, kernel, SUM(GREATEST(end_ts - GREATEST(ts, COALESCE(covered_ts, ts)), 0)) AS busy_ns
    FROM (
        SELECT
            *,
            MAX(end_ts) OVER (
                PARTITION BY rank, name, kernel, device ORDER BY ts, end_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS covered_ts
        FROM owned
    )
    GROUP BY rank, name, kernel
),
by_range AS (
    SELECT
        rank, name, kernel, on_gpu, ANY_VALUE(host_ns) AS host_ns,
        COUNT(*) AS kernels, SUM(dur) AS gpu_ns, MAX(end_ts) - MIN(ts) AS span_ns
    FROM owned
    GROUP BY rank, name, kernel, on_gpu, range_id
)
SELECT
    by_range.rank, by_range.name,
    COUNT(*) AS calls,
    CAST(SUM(by_range.kernels) AS BIGINT) AS kernels,
    CAST(SUM(by_range.gpu_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(by_range.span_ns) AS BIGINT) AS span_ns,
    CAST(SUM(by_range.host_ns) FILTER (NOT by_range.on_gpu) AS BIGINT) AS host_ns,
    CAST(ANY_VALUE(busy.busy_ns) AS BIGINT) AS busy_ns,
    by_range.kernel,
    IF(by_range.on_gpu, 'gpu', 'launch') AS source
FROM by_range
INNER JOIN busy
    ON by_range.rank = busy.rank AND by_range.name = busy.name AND by_range.kernel IS NOT DISTINCT FROM busy.kernel
GROUP BY by_range.rank, by_range.name, by_range.kernel, by_range.on_gpu
ORDER BY gpu_ns DESC, by_range.rank, by_range.name, by_range.kernel
LIMIT $limit::INTEGER
