-- One row per slice that stands for the call of a module.
--
-- These are nn.Module frames of a trace with Python stacks, and ranges that are named after modules
-- (model.layers.12.self_attn.qkv_proj, with or without "module: " in front).
-- @kind   scratch
-- @scope  rank
-- @needs  decoder_layer, event_kind, slice
-- @column id      BIGINT   Id of the slice (slice.id).
-- @column rank    BIGINT   Rank that recorded it.
-- @column kind    VARCHAR  module (frame) or annotation (range).
-- @column class   VARCHAR  Class of the module; for a range, its name with slashes in place of dots.
-- @column number  BIGINT   Number of the instance in the name of the frame; for a range, the layer in its name.
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
