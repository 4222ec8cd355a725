-- One row per call of a module: an nn.Module frame, or a range that is named after a module.
-- @schema main
-- @scope  rank
-- @needs  is_decoder_layer, module_slice, slice_module
-- @empty_unless module_slice
-- @column id         BIGINT   Id of the call; the same number as slice.id.
-- @column rank       BIGINT   Rank that recorded it.
-- @column kind       VARCHAR  module (frame in a trace with Python stacks) or annotation (range).
-- @column class      VARCHAR  Class of the module; for a range, its name with slashes in place of dots.
-- @column number     BIGINT   Number of the instance in the name of the frame; for a range, the layer in its name.
-- @column parent_id  BIGINT   Call of the module around this one (module.id); NULL at the top.
-- @column path       VARCHAR  Classes from the outermost module to this one, with slashes between them; for a range, its name.
-- @column position   BIGINT   Position among the calls of the same class inside the same parent, from 1.
-- @column layer      BIGINT   Layer of the decoder, from 0; NULL outside layers. For a frame, it is counted on its rank.
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
            -- Layers may share a module, such as the rotary embedding, which has the name of one of them.
            WHEN module_slice.kind = 'annotation' AND placed.kind = 'annotation'
                THEN COALESCE(placed.layer, module_slice.number)
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
