-- One row per communication kernel that was launched inside an NVTX range of NCCL with a payload.
--
-- The payload has bytes, so elements count as bytes. It is that of one rank: what an all-gather sends
-- and what a reduce-scatter receives. The number of ranks is told when a communicator is made.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, event_kind, slice, trace
-- @empty_unless trace WHERE dialect = 'nsys'
-- @column kernel_id     BIGINT   Kernel (classified_kernel.id).
-- @column operation     VARCHAR  Name of the operation, in lower case.
-- @column group_name    VARCHAR  Number of NCCL's communicator.
-- @column group_ranks   VARCHAR  Ranks of the process group, as a JSON list; NULL: the ranges do not tell.
-- @column group_size    BIGINT   Number of ranks in the process group.
-- @column in_elements   BIGINT   Number of elements in the input buffer of this rank.
-- @column out_elements  BIGINT   Number of elements in the output buffer of this rank.
-- @column element_type  VARCHAR  Type of the elements, in lower case.
-- @column source        BIGINT   Rank that sends, if the operation is point-to-point.
-- @column destination   BIGINT   Rank that receives, if the operation is point-to-point.
-- @column sequence      BIGINT   Number of the operation in its process group.
WITH told AS (
    SELECT
        slice.rank,
        slice.track_id,
        slice.ts,
        slice.ts + slice.dur AS end_ts,
        slice.name,
        json_extract_string(slice.args, [
            '$.payload."NCCL communicator ID"', '$.payload."Message size [bytes]"',
            '$.payload."No. of ranks"', '$.payload."Peer rank"'
        ]) AS args
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    INNER JOIN trace ON slice.rank = trace.rank
    WHERE
        trace.dialect = 'nsys'
        AND event_kind.kind = 'annotation'
        AND slice.args LIKE '%"NCCL communicator ID"%'
),
communicator AS (
    SELECT rank, args[1] AS id, MAX(TRY_CAST(args[3] AS BIGINT)) AS ranks
    FROM told
    GROUP BY ALL
),
sized AS (
    SELECT *, TRY_CAST(args[2] AS BIGINT) AS bytes FROM told WHERE args[2] IS NOT NULL
),
launched AS (
    SELECT kernel.id AS kernel_id, launch.rank, launch.track_id, launch.ts
    FROM classified_kernel AS kernel
    INNER JOIN slice AS launch ON kernel.launch_id = launch.id
    WHERE kernel.category = 'collective'
)
SELECT
    launched.kernel_id,
    lower(regexp_replace(sized.name, '^p?nccl', '')) AS operation,
    sized.args[1] AS group_name,
    CAST(NULL AS VARCHAR) AS group_ranks,
    communicator.ranks AS group_size,
    CASE WHEN sized.name LIKE '%ReduceScatter%' THEN sized.bytes * communicator.ranks ELSE sized.bytes END
        AS in_elements,
    CASE WHEN sized.name LIKE '%AllGather%' THEN sized.bytes * communicator.ranks ELSE sized.bytes END
        AS out_elements,
    'byte' AS element_type,
    CASE WHEN sized.name LIKE '%Recv%' THEN TRY_CAST(sized.args[4] AS BIGINT) END AS source,
    CASE WHEN sized.name LIKE '%Send%' THEN TRY_CAST(sized.args[4] AS BIGINT) END AS destination,
    CAST(NULL AS BIGINT) AS sequence
FROM launched
ASOF INNER JOIN sized
    ON launched.rank = sized.rank
    AND launched.track_id = sized.track_id
    AND launched.ts >= sized.ts
LEFT JOIN communicator ON sized.rank = communicator.rank AND sized.args[1] = communicator.id
WHERE launched.ts < sized.end_ts
