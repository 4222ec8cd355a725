-- One row per slice that stands for the call of a module.
--
-- nn.Module frames of a trace with Python stacks, and ranges named after modules
-- (model.layers.12.self_attn.qkv_proj, with or without "module: " in front).
-- @kind   scratch
-- @scope  rank
-- @needs  decoder_layer, event_kind, slice
-- @column id      BIGINT   Row of slice.
-- @column rank    BIGINT   Rank that recorded it.
-- @column kind    VARCHAR  module (frame) or annotation (range).
-- @column class   VARCHAR  Class of the module, or its name with slashes if a range names it.
-- @column number  BIGINT   Number of the instance, or the layer in the range's name.
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
FROM (SELECT slice.*, event_kind.kind AS event FROM slice INNER JOIN event_kind USING (rank, cat))
WHERE
    (event = 'frame' AND name LIKE 'nn.Module: %')
    OR (event = 'annotation' AND regexp_matches(name, '^module: |(^|\.)layers\.\d+(\.|$)'))
