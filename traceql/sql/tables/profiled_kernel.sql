-- One row per kernel of the trace with a counterpart under Nsight Compute: what it moved and computed.
--
-- Counts are those of the launch that stands for it (kernel_match), or the mean of several. If several
-- profiles have a count, that of launches known by their order is taken, then the least rounded one.
-- Its duration in the trace is kernel.dur.
-- @scope  run
-- @needs  kernel_match, launch_key, profiled_launch, profiled_work
-- @empty_unless kernel_match
-- @column kernel_id     BIGINT   Kernel (kernel.id).
-- @column rank          BIGINT   Rank whose GPU ran it.
-- @column key_id        BIGINT   Name, grid and block (kernel_key.id).
-- @column how           VARCHAR  How its launches are known: order, range or mean (kernel_match.how).
-- @column launches      BIGINT   Number of launches that the counts come from.
-- @column ncu_ns        DOUBLE   Duration under Nsight Compute, ns, which is not that in the trace; NULL if unknown.
-- @column dram_bytes    DOUBLE   Bytes read from and written to the memory; NULL if unknown.
-- @column l2_bytes      DOUBLE   Bytes requested of the L2 cache; NULL if unknown.
-- @column vector_flops  DOUBLE   FLOPs outside the tensor cores; NULL if unknown.
-- @column tensor_flops  DOUBLE   FLOPs of the tensor cores; NULL if unknown.
-- @column flops         DOUBLE   All FLOPs that are known of it (profiled_work.flops); NULL if unknown.
-- @column dtype         VARCHAR  Type of the numbers on the tensor cores (peak.dtype); NULL without any.
WITH of_key AS (
    SELECT
        profiled_launch.file_id, launch_key.key_id,
        MAX(work.bytes_step) AS bytes_step,
        AVG(work.dur) AS dur_ns,
        AVG(work.dram_bytes) AS dram_bytes,
        AVG(work.l2_bytes) AS l2_bytes,
        AVG(work.vector_flops) AS vector_flops,
        AVG(work.tensor_flops) AS tensor_flops,
        AVG(work.flops) AS flops,
        MAX(work.dtype) AS dtype
    FROM profiled_work AS work
    INNER JOIN launch_key USING (launch)
    INNER JOIN profiled_launch ON work.launch = profiled_launch.id
    GROUP BY profiled_launch.file_id, launch_key.key_id
),
candidate AS (
    SELECT
        kernel_match.kernel_id, kernel_match.rank, kernel_match.key_id, kernel_match.how,
        SUM(kernel_match.launches) AS launches,
        ROW(kernel_match.how = 'mean', MAX(COALESCE(own.bytes_step, of_key.bytes_step)), kernel_match.file_id) AS place,
        AVG(COALESCE(own.dur, of_key.dur_ns)) AS dur_ns,
        AVG(COALESCE(own.dram_bytes, of_key.dram_bytes)) AS dram_bytes,
        AVG(COALESCE(own.l2_bytes, of_key.l2_bytes)) AS l2_bytes,
        AVG(COALESCE(own.vector_flops, of_key.vector_flops)) AS vector_flops,
        AVG(COALESCE(own.tensor_flops, of_key.tensor_flops)) AS tensor_flops,
        AVG(COALESCE(own.flops, of_key.flops)) AS flops,
        MAX(COALESCE(own.dtype, of_key.dtype)) AS dtype
    FROM kernel_match
    LEFT JOIN profiled_work AS own ON kernel_match.launch = own.launch
    LEFT JOIN of_key
        ON kernel_match.launch IS NULL
        AND kernel_match.file_id = of_key.file_id
        AND kernel_match.key_id = of_key.key_id
    GROUP BY kernel_match.kernel_id, kernel_match.rank, kernel_match.key_id, kernel_match.file_id, kernel_match.how
)
SELECT
    kernel_id,
    ANY_VALUE(rank) AS rank,
    ANY_VALUE(key_id) AS key_id,
    arg_min(how, place) AS how,
    CAST(arg_min(launches, place) AS BIGINT) AS launches,
    arg_min(dur_ns, place) AS ncu_ns,
    arg_min(dram_bytes, place) AS dram_bytes,
    arg_min(l2_bytes, place) AS l2_bytes,
    arg_min(vector_flops, place) AS vector_flops,
    arg_min(tensor_flops, place) AS tensor_flops,
    arg_min(flops, place) AS flops,
    arg_min(dtype, place) AS dtype
FROM candidate
GROUP BY kernel_id
ORDER BY kernel_id
