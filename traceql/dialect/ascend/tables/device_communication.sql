-- One row per communication operation of an Ascend profile whose arguments describe it.
--
-- Like HCCL's own calls, the profile counts the elements of one rank: what each rank sends in an
-- all-gather, and what it receives in a reduce-scatter. Old versions do not tell the number of ranks;
-- then it follows from the peers on the planes, where all ranks talk to each other over one fabric.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, operation_part, slice, trace
-- @empty_unless trace WHERE dialect = 'ascend'
-- @column kernel_id     BIGINT   Kernel (classified_kernel.id).
-- @column operation     VARCHAR  Name of the operation, in lower case.
-- @column group_name    VARCHAR  Name of the communicator, or its last digits.
-- @column group_ranks   VARCHAR  NULL: the profile does not tell.
-- @column group_size    BIGINT   Number of ranks in the communicator; NULL if neither the arguments nor the planes tell.
-- @column in_elements   BIGINT   Number of elements in the input buffer of this rank.
-- @column out_elements  BIGINT   Number of elements in the output buffer of this rank.
-- @column element_type  VARCHAR  Type of the elements, in lower case.
-- @column source        BIGINT   NULL: the profile does not tell.
-- @column destination   BIGINT   NULL: the profile does not tell.
-- @column sequence      BIGINT   NULL: the profile does not tell.
WITH told AS (
    SELECT
        kernel.id,
        lower(regexp_extract(kernel.name, '^hcom_([A-Za-z]+)_', 1)) AS operation,
        -- The name of the operation has the last digits of that of its communicator.
        NULLIF(regexp_extract(kernel.name, '^hcom_[A-Za-z]+__(\d+)_', 1), '') AS digits,
        json_extract_string(
            slice.args, ['$.group', '$.count', '$.data_type', '$.rank_size', '$.alg_type']
        ) AS args
    FROM classified_kernel AS kernel
    INNER JOIN slice USING (id)
    INNER JOIN trace ON kernel.rank = trace.rank
    WHERE
        trace.dialect = 'ascend'
        AND kernel.category = 'collective'
        AND regexp_matches(kernel.name, '^hcom_[A-Za-z]+_')
),
peers AS (
    SELECT kernel_id, MAX(peer) + 1 AS ranks
    FROM operation_part
    WHERE peer IS NOT NULL
    GROUP BY kernel_id
    HAVING COUNT(DISTINCT peer) = MAX(peer) + 1
),
remote AS (
    SELECT DISTINCT kernel_id FROM operation_part WHERE transport NOT IN ('SDMA', 'LOCAL')
),
counted AS (
    SELECT
        told.id,
        told.operation,
        COALESCE(told.args[1], told.digits) AS group_name,
        COALESCE(
            TRY_CAST(told.args[4] AS BIGINT),
            CASE WHEN told.args[5] LIKE '%MESH%' AND remote.kernel_id IS NULL THEN peers.ranks END
        ) AS ranks,
        TRY_CAST(told.args[2] AS BIGINT) AS elements,
        CASE told.args[3]
            WHEN 'FP16' THEN 'half' WHEN 'BFP16' THEN 'bfloat16' WHEN 'BF16' THEN 'bfloat16'
            WHEN 'FP32' THEN 'float' WHEN 'FP64' THEN 'double' WHEN 'UINT64' THEN 'int64'
            ELSE lower(told.args[3])
        END AS element_type
    FROM told
    LEFT JOIN peers ON told.id = peers.kernel_id
    LEFT JOIN remote ON told.id = remote.kernel_id
)
SELECT
    id AS kernel_id,
    -- A batch of sends and receives is no all-to-all, though its name has both words.
    CASE operation WHEN 'batchsendrecv' THEN 'batch' ELSE operation END AS operation,
    group_name,
    CAST(NULL AS VARCHAR) AS group_ranks,
    ranks AS group_size,
    CASE operation WHEN 'reducescatter' THEN elements * ranks ELSE elements END AS in_elements,
    CASE operation WHEN 'allgather' THEN elements * ranks ELSE elements END AS out_elements,
    element_type,
    CAST(NULL AS BIGINT) AS source,
    CAST(NULL AS BIGINT) AS destination,
    CAST(NULL AS BIGINT) AS sequence
FROM counted
