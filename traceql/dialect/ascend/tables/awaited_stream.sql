-- One row per communication operation of an Ascend profile: the stream of computation that waits for it.
--
-- HCCL runs its operations on streams of its own, and the stream that computes waits for them. So in
-- the order of kernels they belong to that stream, the one with the most kernels.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, trace
-- @empty_unless trace WHERE dialect = 'ascend'
-- @column id      BIGINT  Kernel of the operation (classified_kernel.id).
-- @column stream  BIGINT  Number of the stream that waits for it.
WITH of_ascend AS (
    SELECT kernel.id, kernel.rank, kernel.device, kernel.stream, kernel.category, kernel.kind
    FROM classified_kernel AS kernel
    INNER JOIN trace ON kernel.rank = trace.rank
    WHERE trace.dialect = 'ascend'
),
computing AS (
    SELECT rank, device, stream
    FROM of_ascend
    WHERE kind = 'kernel' AND category <> 'collective'
    GROUP BY rank, device, stream
    QUALIFY ROW_NUMBER() OVER (PARTITION BY rank, device ORDER BY COUNT(*) DESC, stream) = 1
)
SELECT of_ascend.id, computing.stream
FROM of_ascend
INNER JOIN computing USING (rank, device)
WHERE of_ascend.category = 'collective'
