-- One row per communication kernel whose arguments describe its operation.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, slice
-- @empty_unless classified_kernel WHERE category = 'collective'
-- @column kernel_id     BIGINT   Kernel (classified_kernel.id).
-- @column operation     VARCHAR  Name of the operation, in lower case.
-- @column group_name    VARCHAR  Name of the process group.
-- @column group_ranks   VARCHAR  Ranks of the process group, as a JSON list; the profiler shortens long lists.
-- @column group_size    BIGINT   Number of ranks in the process group.
-- @column in_elements   BIGINT   Number of elements in the input buffer of this rank.
-- @column out_elements  BIGINT   Number of elements in the output buffer of this rank.
-- @column element_type  VARCHAR  Type of the elements, in lower case.
-- @column source        BIGINT   Rank that sends, if the operation is point-to-point.
-- @column destination   BIGINT   Rank that receives, if the operation is point-to-point.
-- @column sequence      BIGINT   Number of the operation in its process group.
SELECT
    slice.id AS kernel_id,
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
FROM (
    SELECT
        slice.id,
        json_extract_string(slice.args, [
            '$."Collective name"', '$."Process Group Name"', '$."Process Group Ranks"',
            '$."Group size"', '$."In msg nelems"', '$."Out msg nelems"', '$.dtype',
            '$."Src Rank"', '$."Dst Rank"', '$.Seq'
        ]) AS args
    FROM classified_kernel AS kernel
    INNER JOIN slice USING (id)
    WHERE kernel.category = 'collective' AND slice.args LIKE '%"Collective name"%'
) AS slice
