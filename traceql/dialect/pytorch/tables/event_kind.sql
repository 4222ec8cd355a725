-- One row per rank and category of events: what kind of events these are.
-- @scope  rank
-- @needs  slice
-- @column rank  BIGINT   Rank.
-- @column cat   VARCHAR  Category as in the file; the same as slice.cat.
-- @column kind  VARCHAR  kernel, memcpy, memset, launch (runtime or driver call), operator, annotation (range on the host), gpu_annotation (the same range, copied to a stream), frame (Python function) or other.
SELECT DISTINCT
    rank,
    cat,
    CASE
        WHEN lower(cat) = 'kernel' THEN 'kernel'
        WHEN lower(cat) = 'gpu_memcpy' THEN 'memcpy'
        WHEN lower(cat) = 'gpu_memset' THEN 'memset'
        WHEN lower(cat) IN
            ('cuda_runtime', 'cuda_driver', 'hip_runtime', 'hip_driver', 'xpu_runtime', 'runtime')
            THEN 'launch'
        WHEN lower(cat) IN ('cpu_op', 'operator') THEN 'operator'
        WHEN lower(cat) = 'user_annotation' THEN 'annotation'
        WHEN lower(cat) = 'gpu_user_annotation' THEN 'gpu_annotation'
        WHEN lower(cat) = 'python_function' THEN 'frame'
        ELSE 'other'
    END AS kind
FROM slice
WHERE cat IS NOT NULL
