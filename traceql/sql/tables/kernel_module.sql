-- One row per kernel whose launch call is inside the call of a module; kernels of graph replays are not included.
-- @scope  rank
-- @needs  classified_kernel, slice_module
-- @empty_unless slice_module
-- @column id         BIGINT  Kernel (kernel.id).
-- @column module_id  BIGINT  Innermost call of a module around the launch call (module.id).
SELECT kernel.id, slice_module.module_id AS module_id
FROM classified_kernel AS kernel
INNER JOIN slice_module ON kernel.launch_id = slice_module.id
WHERE NOT kernel.in_graph
