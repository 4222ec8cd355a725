-- One row per communication kernel whose operation the trace describes.
--
-- PyTorch's and Ascend's profilers describe it in the arguments of the kernel, NCCL in those of an
-- NVTX range around its launch call. The payload of such a range has bytes, so elements count as bytes.
-- NCCL and HCCL count the elements of one rank: what each rank sends in an all-gather, and what it
-- receives in a reduce-scatter.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, event_kind, operation_plane, slice, trace
-- @empty_unless classified_kernel WHERE category = 'collective'
-- @column kernel_id     BIGINT   Kernel (classified_kernel.id).
-- @column operation     VARCHAR  Name of the operation, in lower case.
-- @column group_name    VARCHAR  Name of the process group; with NCCL's ranges, the number of the communicator, and with Ascend, its name or the last digits of it.
-- @column group_ranks   VARCHAR  Ranks of the process group, as a JSON list; PyTorch's profiler shortens long lists, others have none.
-- @column group_size    BIGINT   Number of ranks in the process group; NULL if unknown.
-- @column in_elements   BIGINT   Number of elements in the input buffer of this rank.
-- @column out_elements  BIGINT   Number of elements in the output buffer of this rank.
-- @column element_type  VARCHAR  Type of the elements, in lower case.
-- @column source        BIGINT   Rank that sends, if the operation is point-to-point.
-- @column destination   BIGINT   Rank that receives, if the operation is point-to-point.
-- @column sequence      BIGINT   Number of the operation in its process group.
WITH kernel AS MATERIALIZED (
    SELECT
        classified_kernel.id, classified_kernel.rank, classified_kernel.name,
        classified_kernel.launch_id, slice.args
    FROM classified_kernel
    INNER JOIN slice USING (id)
    WHERE classified_kernel.category = 'collective'
),
pytorch_operation AS (
    SELECT
        id,
        json_extract_string(args, [
            '$."Collective name"', '$."Process Group Name"', '$."Process Group Ranks"',
            '$."Group size"', '$."In msg nelems"', '$."Out msg nelems"', '$.dtype',
            '$."Src Rank"', '$."Dst Rank"', '$.Seq'
        ]) AS args
    FROM kernel
    WHERE args LIKE '%"Collective name"%'
),
nccl_range AS MATERIALIZED (  -- so that the arguments of other profilers are not read
    SELECT
        slice.rank, slice.track_id, slice.ts,
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
-- The number of ranks is recorded when a communicator is made.
nccl_communicator AS (
    SELECT rank, args[1] AS id, MAX(TRY_CAST(args[3] AS BIGINT)) AS ranks
    FROM nccl_range
    GROUP BY ALL
),
sized_range AS (
    SELECT *, TRY_CAST(args[2] AS BIGINT) AS bytes FROM nccl_range WHERE args[2] IS NOT NULL
),
launched AS (
    SELECT kernel.id AS kernel_id, launch.rank, launch.track_id, launch.ts
    FROM kernel
    INNER JOIN slice AS launch ON kernel.launch_id = launch.id
    WHERE EXISTS (FROM nccl_range)
),
hccl_kernel AS (
    SELECT
        kernel.id,
        lower(regexp_extract(kernel.name, '^hcom_([A-Za-z]+)_', 1)) AS operation,
        -- The name of the operation has the last digits of that of its communicator.
        NULLIF(regexp_extract(kernel.name, '^hcom_[A-Za-z]+__(\d+)_', 1), '') AS digits,
        json_extract_string(
            kernel.args, ['$.group', '$.count', '$.data_type', '$.rank_size', '$.alg_type']
        ) AS args
    FROM kernel
    INNER JOIN trace ON kernel.rank = trace.rank
    WHERE trace.dialect = 'ascend' AND regexp_matches(kernel.name, '^hcom_[A-Za-z]+_')
),
hccl_operation AS (
    SELECT
        described.id, described.operation,
        COALESCE(described.args[1], described.digits) AS group_name,
        -- Old versions have no number of ranks. It follows from the peers on the planes, where
        -- all ranks talk to each other over one fabric.
        COALESCE(
            TRY_CAST(described.args[4] AS BIGINT),
            CASE WHEN described.args[5] LIKE '%MESH%' AND NOT COALESCE(plane.is_remote, FALSE) THEN plane.ranks END
        ) AS ranks,
        TRY_CAST(described.args[2] AS BIGINT) AS elements,
        CASE described.args[3]
            WHEN 'FP16' THEN 'half' WHEN 'BFP16' THEN 'bfloat16' WHEN 'BF16' THEN 'bfloat16'
            WHEN 'FP32' THEN 'float' WHEN 'FP64' THEN 'double' WHEN 'UINT64' THEN 'int64'
            ELSE lower(described.args[3])
        END AS element_type
    FROM hccl_kernel AS described
    LEFT JOIN operation_plane AS plane ON described.id = plane.kernel_id
)
SELECT
    id AS kernel_id,
    lower(args[1]) AS operation,
    args[2] AS group_name,
    args[3] AS group_ranks,
    TRY_CAST(args[4] AS BIGINT) AS group_size,
    TRY_CAST(args[5] AS BIGINT) AS in_elements,
    TRY_CAST(args[6] AS BIGINT) AS out_elements,
    lower(args[7]) AS element_type,
    TRY_CAST(args[8] AS BIGINT) AS source,
    TRY_CAST(args[9] AS BIGINT) AS destination,
    TRY_CAST(args[10] AS BIGINT) AS sequence
FROM pytorch_operation
UNION ALL
SELECT
    launched.kernel_id,
    lower(regexp_replace(sized_range.name, '^p?nccl', '')) AS operation,
    sized_range.args[1] AS group_name,
    CAST(NULL AS VARCHAR) AS group_ranks,
    communicator.ranks AS group_size,
    sized_range.bytes * CASE WHEN sized_range.name LIKE '%ReduceScatter%' THEN communicator.ranks ELSE 1 END AS in_elements,
    sized_range.bytes * CASE WHEN sized_range.name LIKE '%AllGather%' THEN communicator.ranks ELSE 1 END AS out_elements,
    'byte' AS element_type,
    CASE WHEN sized_range.name LIKE '%Recv%' THEN TRY_CAST(sized_range.args[4] AS BIGINT) END AS source,
    CASE WHEN sized_range.name LIKE '%Send%' THEN TRY_CAST(sized_range.args[4] AS BIGINT) END AS destination,
    CAST(NULL AS BIGINT) AS sequence
FROM launched
ASOF INNER JOIN sized_range
    ON launched.rank = sized_range.rank
    AND launched.track_id = sized_range.track_id
    AND launched.ts >= sized_range.ts
LEFT JOIN nccl_communicator AS communicator
    ON sized_range.rank = communicator.rank AND sized_range.args[1] = communicator.id
WHERE launched.ts < sized_range.end_ts
UNION ALL
SELECT
    id AS kernel_id,
    -- A batch of sends and receives is no all-to-all, though its name has both words.
    CASE operation WHEN 'batchsendrecv' THEN 'batch' ELSE operation END AS operation,
    group_name,
    CAST(NULL AS VARCHAR) AS group_ranks,
    ranks AS group_size,
    elements * CASE operation WHEN 'reducescatter' THEN ranks ELSE 1 END AS in_elements,
    elements * CASE operation WHEN 'allgather' THEN ranks ELSE 1 END AS out_elements,
    element_type,
    CAST(NULL AS BIGINT) AS source,
    CAST(NULL AS BIGINT) AS destination,
    CAST(NULL AS BIGINT) AS sequence
FROM hccl_operation
