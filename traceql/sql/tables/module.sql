-- One row per call of a module: an nn.Module frame, or a range that is named after a module.
-- @schema main
-- @scope  rank
-- @needs  is_of_other_model, layer_module, slice_module
-- @empty_unless slice_module
-- @column id         BIGINT   Id of the call; the same number as slice.id.
-- @column rank       BIGINT   Rank that recorded it.
-- @column kind       VARCHAR  module (frame in a trace with Python stacks) or annotation (range).
-- @column class      VARCHAR  Class of the module; for a range, its name with slashes in place of dots.
-- @column number     BIGINT   Number of the instance in the name of the frame; for a range, the layer in its name.
-- @column parent_id  BIGINT   Call of the module around this one (module.id); NULL at the top.
-- @column path       VARCHAR  Classes from the outermost module to this one, with slashes between them; for a range, its name.
-- @column position   BIGINT   Position among the calls of the same class inside the same parent, from 1.
-- @column layer      BIGINT   Layer of the model (layer_module.sql says which modules are layers), from 0; NULL outside layers. For a frame, it is counted on its rank.
WITH RECURSIVE call AS (
    SELECT
        id, rank, kind, class, number,
        outer_module_id AS parent_id,
        layer_module.layer AS own_layer,
        regexp_matches(class, '(DecoderLayer|TransformerBlock|TransformerLayer)$') AS is_layer
    FROM slice_module
    LEFT JOIN layer_module USING (id)
    WHERE kind IS NOT NULL
),
placed AS (
    SELECT
        * EXCLUDE (own_layer, is_layer),
        class AS path,
        COALESCE(
            own_layer,
            CASE WHEN kind = 'annotation' OR (is_layer AND NOT is_of_other_model(class)) THEN number END
        ) AS layer
    FROM call
    WHERE parent_id IS NULL
    UNION ALL
    SELECT
        call.* EXCLUDE (own_layer, is_layer),
        CASE WHEN call.kind = 'annotation' THEN call.class ELSE placed.path || '/' || call.class END,
        CASE
            -- Layers may share a module, such as the rotary embedding, which has the name of one of them.
            WHEN call.kind = 'annotation' AND placed.kind = 'annotation' THEN COALESCE(placed.layer, call.own_layer, call.number)
            WHEN call.own_layer IS NOT NULL THEN call.own_layer
            WHEN call.kind = 'annotation' OR (call.is_layer AND NOT is_of_other_model(placed.path || '/' || call.class))
                THEN call.number
            ELSE placed.layer
        END
    FROM placed
    INNER JOIN call ON placed.id = call.parent_id
)
SELECT
    id, rank, kind, class, number, parent_id, path,
    ROW_NUMBER() OVER (PARTITION BY rank, parent_id, class ORDER BY id) AS position,
    layer
FROM placed
ORDER BY id
