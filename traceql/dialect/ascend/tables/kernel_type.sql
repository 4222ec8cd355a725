-- One row per distinct name of a kernel of an Ascend profile: the type of the operator that it is.
--
-- The profiler tells it, but not in every export; then the name does. Names of aclnn kernels end with
-- it, as in aclnnMatmul_MatMulV3Common_MatMulV3.
-- @kind   scratch
-- @scope  rank
-- @needs  event_kind, slice, trace
-- @empty_unless trace WHERE dialect = 'ascend'
-- @column name  VARCHAR  Name of the kernel.
-- @column type  VARCHAR  Type of the operator, such as MatMulV3.
SELECT
    slice.name,
    COALESCE(
        MIN(json_extract_string(slice.args, '$."Type"')),
        CASE
            WHEN slice.name LIKE 'hcom\_%' ESCAPE '\' THEN regexp_extract(slice.name, '^hcom_[A-Za-z]+_')
            WHEN regexp_matches(slice.name, '^aclnn[^_]+_.+_[^_]+$') THEN regexp_extract(slice.name, '_([^_]+)$', 1)
            WHEN slice.name LIKE '%\_MemSet' ESCAPE '\' THEN 'MemSet'
            WHEN regexp_matches(slice.name, '^trans_[A-Za-z]+_\d+$') THEN regexp_extract(slice.name, '^trans_([A-Za-z]+)', 1)
            ELSE slice.name
        END
    ) AS type
FROM slice
INNER JOIN event_kind USING (rank, cat)
INNER JOIN trace ON slice.rank = trace.rank
WHERE trace.dialect = 'ascend' AND event_kind.kind = 'kernel'
GROUP BY slice.name
