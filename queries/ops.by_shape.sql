-- One row per CPU operator and shapes of its inputs, by the GPU time that it launched itself; without a GPU, by the time on the host.
--
-- Use it to see which sizes of a matrix product, an attention or a copy the time goes to. As in
-- ops.top, an operator launched a kernel itself if no operator inside it did, and total_gpu_ns has
-- all that was launched on its thread while it ran. Shapes are NULL where they were not recorded
-- (record_shapes) and in rows named after the call that launched what no operator did, in
-- parentheses: (cudaGraphLaunch) is what CUDA graphs replayed. Then gpu_ns adds up to all GPU time.
-- Kernels of replays count for the operator that launched them in the capture where a recording of the capture is loaded.
-- @param  limit         INTEGER = 30    Maximum number of rows.
-- @param  rank          BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  pattern       VARCHAR = '%'   Only operators whose name is like this, with % for any text.
-- @column name          VARCHAR  Operator; the call in parentheses for GPU activities that no operator launched.
-- @column shapes        VARCHAR  Shape of each input as the profiler wrote it, such as [[16,4096],[4096,6144]]; NULL if not recorded.
-- @column types         VARCHAR  Element type of each input as the profiler wrote it; NULL if not recorded.
-- @column calls         BIGINT   Number of calls on the host; replays are none.
-- @column kernels       BIGINT   GPU activities that it launched itself.
-- @column gpu_ns        BIGINT   Total duration of the GPU activities that it launched itself, ns; the waiting of collectives included.
-- @column share_pct     DOUBLE   gpu_ns in percent of that of all rows.
-- @column total_gpu_ns  BIGINT   Total duration of all GPU activities launched while it ran, ns.
-- @column host_ns       BIGINT   Total duration of its calls on the host, including operators inside it, ns.
-- @key    name shapes gpu_ns share_pct calls total_gpu_ns host_ns kernels types
-- @empty  the trace has no such operator, and no GPU activity
-- @chart  bar x=gpu_ns y=shapes color=name
-- @title  GPU time by operator and shapes
WITH operator AS MATERIALIZED (
    SELECT
        slice.id, slice.dur, slice.name,
        NULLIF(CAST(json_extract(slice.args, '$."Input Dims"') AS VARCHAR), 'null') AS shapes,
        NULLIF(CAST(json_extract(slice.args, '$."Input type"') AS VARCHAR), 'null') AS types
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'operator'
        AND slice.name LIKE $pattern::VARCHAR
        AND ($rank::BIGINT IS NULL OR slice.rank = $rank::BIGINT)
),
launched AS MATERIALIZED (
    SELECT
        kernel.rank, node.operator, node.shapes, node.types,
        COALESCE(slice.external_id, on_host.external_id) AS external_id,
        '(' || COALESCE(on_host.name, 'launch not recorded') || ')' AS call,
        COUNT(*) AS kernels,
        CAST(SUM(kernel.dur) AS BIGINT) AS dur
    FROM kernel
    INNER JOIN slice USING (id)
    LEFT JOIN slice AS on_host ON kernel.launch_id = on_host.id
    LEFT JOIN activity ON kernel.id = activity.id AND kernel.in_graph
    LEFT JOIN graph_node AS node ON kernel.rank = node.rank AND activity.graph_node_id = node.graph_node_id
    WHERE $rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT
    GROUP BY ALL
),
-- Operators with one number are inside each other.
op_of_id AS (
    SELECT slice.rank, slice.external_id, arg_max(slice.id, slice.depth) AS id
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    SEMI JOIN launched ON slice.rank = launched.rank AND slice.external_id = launched.external_id
    WHERE event_kind.kind = 'operator'
    GROUP BY slice.rank, slice.external_id
),
own AS (
    SELECT
        op_of_id.id,
        COALESCE(launched.operator, launched.call) AS name,
        launched.shapes, launched.types,
        SUM(launched.kernels) AS kernels,
        SUM(launched.dur) AS gpu_ns
    FROM launched
    LEFT JOIN op_of_id ON launched.rank = op_of_id.rank AND launched.external_id = op_of_id.external_id AND launched.operator IS NULL
    GROUP BY ALL
),
by_operator AS (
    SELECT id, SUM(kernels) AS kernels, SUM(gpu_ns) AS gpu_ns FROM own WHERE id IS NOT NULL GROUP BY id
),
row_of AS (
    SELECT
        operator.name, operator.shapes, operator.types,
        1 AS calls, by_operator.kernels, by_operator.gpu_ns, operator_gpu_time.total_gpu_ns, operator.dur AS host_ns
    FROM operator
    LEFT JOIN by_operator USING (id)
    LEFT JOIN operator_gpu_time USING (id)
    UNION ALL
    SELECT name, shapes, types, 0, kernels, gpu_ns, gpu_ns, 0 FROM own WHERE id IS NULL AND name LIKE $pattern::VARCHAR
)
SELECT
    name, shapes, types,
    CAST(SUM(calls) AS BIGINT) AS calls,
    CAST(COALESCE(SUM(kernels), 0) AS BIGINT) AS kernels,
    CAST(COALESCE(SUM(gpu_ns), 0) AS BIGINT) AS gpu_ns,
    100.0 * COALESCE(SUM(gpu_ns), 0) / NULLIF(SUM(SUM(gpu_ns)) OVER (), 0) AS share_pct,
    CAST(COALESCE(SUM(total_gpu_ns), 0) AS BIGINT) AS total_gpu_ns,
    CAST(SUM(host_ns) AS BIGINT) AS host_ns
FROM row_of
GROUP BY name, shapes, types
ORDER BY gpu_ns DESC, total_gpu_ns DESC, host_ns DESC, name, shapes
LIMIT $limit::INTEGER
