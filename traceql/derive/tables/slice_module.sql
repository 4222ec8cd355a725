-- One row per slice inside the call of a module: the innermost module around it.
--
-- The query walks down the tree of slices and visits each slice once.
-- @kind   scratch
-- @scope  rank
-- @needs  module_slice, slice
-- @empty_unless module_slice
-- @column id               BIGINT  Slice (slice.id).
-- @column module_id        BIGINT  Innermost call of a module around the slice (module_slice.id); the slice itself if it is such a call.
-- @column outer_module_id  BIGINT  Call of the module around that one; NULL at the top.
WITH RECURSIVE inside AS (
    SELECT slice.id, module_slice.id AS module_id, CAST(NULL AS BIGINT) AS outer_module_id
    FROM slice
    LEFT JOIN module_slice USING (id)
    WHERE slice.parent_id IS NULL AND slice.rank IN (SELECT rank FROM module_slice)
    UNION ALL
    SELECT child.id, COALESCE(module_slice.id, inside.module_id), inside.module_id
    FROM inside
    INNER JOIN (
        SELECT id, parent_id FROM slice WHERE rank IN (SELECT rank FROM module_slice)
    ) AS child ON inside.id = child.parent_id
    LEFT JOIN module_slice ON child.id = module_slice.id
)
SELECT id, module_id, outer_module_id FROM inside WHERE module_id IS NOT NULL
