-- One row per call of a module: an nn.Module frame or a range named after a module.
-- @scope  rank
-- @needs  is_decoder_layer, module_slice, slice_module
-- @column id         BIGINT   Row of slice.
-- @column rank       BIGINT   Rank that recorded it.
-- @column kind       VARCHAR  module (frame of a trace with stacks) or annotation (range).
-- @column class      VARCHAR  Class of the module, or its name with slashes where a range tells it.
-- @column number     BIGINT   Number of the instance, or the layer in the range's name.
-- @column parent_id  BIGINT   Row of module that called it; NULL at the top.
-- @column path       VARCHAR  Classes from the outermost module to this one, with slashes.
-- @column position   BIGINT   Place among the calls of its class by the same caller, from 1.
-- @column layer      BIGINT   Model layer, from 0; NULL outside layers.
WITH RECURSIVE placed AS (
    SELECT
        module_slice.*,
        slice_module.outer_module_id AS parent_id,
        class AS path,
        CASE WHEN kind = 'annotation' OR is_decoder_layer(class, class) THEN number END AS layer
    FROM module_slice
    INNER JOIN slice_module USING (id)
    WHERE slice_module.outer_module_id IS NULL
    UNION ALL
    SELECT
        module_slice.*,
        slice_module.outer_module_id,
        CASE
            WHEN module_slice.kind = 'annotation' THEN module_slice.class ELSE placed.path || '/' || module_slice.class
        END,
        CASE
            WHEN module_slice.kind = 'annotation' OR is_decoder_layer(module_slice.class, placed.path || '/' || module_slice.class)
                THEN module_slice.number
            ELSE placed.layer
        END
    FROM placed
    INNER JOIN slice_module ON placed.id = slice_module.outer_module_id AND slice_module.id = slice_module.module_id
    INNER JOIN module_slice ON slice_module.id = module_slice.id
)
SELECT
    id,
    rank,
    kind,
    class,
    number,
    parent_id,
    path,
    ROW_NUMBER() OVER (PARTITION BY rank, parent_id, class ORDER BY id) AS position,
    layer
FROM placed
ORDER BY id
