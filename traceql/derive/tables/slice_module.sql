-- One row per slice inside the call of a module: the innermost module around it.
--
-- Walks down the tree of slices and visits each once.
-- @kind   scratch
-- @scope  rank
-- @needs  module_slice, slice
-- @column id               BIGINT  Row of slice.
-- @column module_id        BIGINT  Row of module_slice: the innermost module; its own row for a module.
-- @column outer_module_id  BIGINT  The module around that one; NULL at the top.
WITH RECURSIVE inside AS (
    SELECT slice.id, module_slice.id AS module_id, CAST(NULL AS BIGINT) AS outer_module_id
    FROM slice
    LEFT JOIN module_slice USING (id)
    WHERE slice.parent_id IS NULL AND slice.rank IN (SELECT rank FROM module_slice)
    UNION ALL
    SELECT child.id, COALESCE(module_slice.id, inside.module_id), inside.module_id
    FROM inside
    INNER JOIN slice AS child ON inside.id = child.parent_id
    LEFT JOIN module_slice ON child.id = module_slice.id
)
SELECT id, module_id, outer_module_id FROM inside WHERE module_id IS NOT NULL
