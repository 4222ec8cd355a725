-- One row per kernel whose launch is inside a module.
-- @scope  rank
-- @needs  classified_kernel, slice_module
-- @column id         BIGINT  Row of kernel.
-- @column module_id  BIGINT  Row of module: the innermost one.
SELECT kernel.id, slice_module.module_id AS module_id
FROM classified_kernel AS kernel
INNER JOIN slice_module ON kernel.launch_id = slice_module.id
WHERE NOT kernel.in_graph
