-- Where host code was in the model: nn.Module frames of a trace with stacks, and ranges named
-- after modules (model.layers.12.self_attn.qkv_proj, with or without "module: "); and which of them launched each kernel.

-- Whether a module is of another model than the decoder: one that encodes, or drafts tokens.
CREATE OR REPLACE MACRO of_other_model(path) AS regexp_matches(
    path, '(?i)vis(ion|ual)|vae|unet|audio|encoder(layer|model)?([./_]|$)|(^|[./])(text_\d+|image\w*|draft\w*|eagle\w*|mtp)([./]|$)'
);

-- The layer in a module's name, where its layers are those of the decoder.
CREATE OR REPLACE MACRO decoder_layer(path) AS CASE
    WHEN NOT of_other_model(path)
        THEN TRY_CAST(regexp_extract(path, '(?:^|[./])(?:layers|h|blocks)[./](\d+)(?:[./]|$)', 1) AS BIGINT)
END;

-- Whether a class is a layer of the decoder.
CREATE OR REPLACE MACRO is_decoder_layer(class, path) AS
    regexp_matches(class, '(DecoderLayer|TransformerBlock|TransformerLayer)$') AND NOT of_other_model(path);

CREATE OR REPLACE TEMP TABLE scope AS
SELECT
    id,
    rank,
    CASE WHEN name LIKE 'nn.Module: %' THEN 'module' ELSE 'annotation' END AS kind,
    CASE
        WHEN name LIKE 'nn.Module: %' THEN regexp_extract(name, '^nn\.Module: (.*?)(_\d+)?$', 1)
        ELSE replace(regexp_replace(name, '^module: ', ''), '.', '/')
    END AS class,
    CASE
        WHEN name LIKE 'nn.Module: %' THEN TRY_CAST(regexp_extract(name, '_(\d+)$', 1) AS BIGINT)
        ELSE decoder_layer(regexp_replace(name, '^module: ', ''))
    END AS number
FROM slice
WHERE
    (lower(cat) = 'python_function' AND name LIKE 'nn.Module: %')
    OR (
        lower(cat) = 'user_annotation'
        AND regexp_matches(name, '^module: |(^|\.)layers\.\d+(\.|$)')
    );

-- Down the tree of slices, each of which is visited once.
CREATE OR REPLACE TEMP TABLE slice_scope AS
WITH RECURSIVE inside AS (
    SELECT slice.id, scope.id AS scope_id, CAST(NULL AS BIGINT) AS outer_id
    FROM slice
    LEFT JOIN scope USING (id)
    WHERE slice.parent_id IS NULL AND slice.rank IN (SELECT rank FROM scope)
    UNION ALL
    SELECT child.id, COALESCE(scope.id, inside.scope_id), inside.scope_id
    FROM inside
    INNER JOIN slice AS child ON inside.id = child.parent_id
    LEFT JOIN scope ON child.id = scope.id
)
SELECT id, scope_id, outer_id FROM inside WHERE scope_id IS NOT NULL;

CREATE OR REPLACE TABLE module AS
WITH RECURSIVE placed AS (
    SELECT
        scope.*,
        slice_scope.outer_id AS parent_id,
        class AS path,
        CASE WHEN kind = 'annotation' OR is_decoder_layer(class, class) THEN number END AS layer
    FROM scope
    INNER JOIN slice_scope USING (id)
    WHERE slice_scope.outer_id IS NULL
    UNION ALL
    SELECT
        scope.*,
        slice_scope.outer_id,
        CASE
            WHEN scope.kind = 'annotation' THEN scope.class ELSE placed.path || '/' || scope.class
        END,
        CASE
            WHEN scope.kind = 'annotation' OR is_decoder_layer(scope.class, placed.path || '/' || scope.class)
                THEN scope.number
            ELSE placed.layer
        END
    FROM placed
    INNER JOIN slice_scope ON placed.id = slice_scope.outer_id AND slice_scope.id = slice_scope.scope_id
    INNER JOIN scope ON slice_scope.id = scope.id
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
ORDER BY id;

COMMENT ON TABLE module IS
    'One row per call of a module: an nn.Module frame or a range named after a module.';
COMMENT ON COLUMN module.id IS 'Row of slice.';
COMMENT ON COLUMN module.rank IS 'Rank that recorded it.';
COMMENT ON COLUMN module.kind IS 'module (frame of a trace with stacks) or annotation (range).';
COMMENT ON COLUMN module.class IS 'Class of the module, or its name with slashes where a range tells it.';
COMMENT ON COLUMN module.number IS 'Number of the instance, or the layer in the range''s name.';
COMMENT ON COLUMN module.parent_id IS 'Row of module that called it; NULL at the top.';
COMMENT ON COLUMN module.path IS 'Classes from the outermost module to this one, with slashes.';
COMMENT ON COLUMN module.position IS 'Place among the calls of its class by the same caller, from 1.';
COMMENT ON COLUMN module.layer IS 'Model layer, from 0; NULL outside layers.';

CREATE OR REPLACE TABLE kernel_module AS
SELECT kernel.id, slice_scope.scope_id AS module_id
FROM kernel
INNER JOIN slice_scope ON kernel.launch_id = slice_scope.id
WHERE NOT kernel.in_graph;

COMMENT ON TABLE kernel_module IS 'One row per kernel whose launch is inside a module.';
COMMENT ON COLUMN kernel_module.id IS 'Row of kernel.';
COMMENT ON COLUMN kernel_module.module_id IS 'Row of module: the innermost one.';

DROP TABLE scope;
DROP TABLE slice_scope;
