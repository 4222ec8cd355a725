-- One row per slice that stands for the call of a module.
--
-- These are nn.Module frames of a trace with Python stacks, and ranges that are named after modules:
-- model.layers.12.self_attn.qkv_proj, with or without "module: " in front, or a Python dictionary
-- with the key Module, as vLLM writes with --enable-layerwise-nvtx-tracing. That also writes a range
-- with the outputs after each call, which encloses nothing.
-- @kind   scratch
-- @scope  rank
-- @needs  decoder_layer, event_kind, slice
-- @column id      BIGINT   Id of the slice (slice.id).
-- @column rank    BIGINT   Rank that recorded it.
-- @column kind    VARCHAR  module (frame) or annotation (range).
-- @column class   VARCHAR  Class of the module; for a range, its name with slashes in place of dots.
-- @column number  BIGINT   Number of the instance in the name of the frame; for a range, the layer in its name.
WITH event AS (
    SELECT
        slice.id,
        slice.rank,
        slice.name,
        event_kind.kind,
        COALESCE(
            NULLIF(regexp_extract(slice.name, '^\{''Module'': ''([^'']+)''', 1), ''),
            regexp_replace(slice.name, '^module: ', '')
        ) AS range_name
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind IN ('frame', 'annotation')
)
SELECT
    id,
    rank,
    CASE WHEN name LIKE 'nn.Module: %' THEN 'module' ELSE 'annotation' END AS kind,
    CASE
        WHEN name LIKE 'nn.Module: %' THEN regexp_extract(name, '^nn\.Module: (.*?)(_\d+)?$', 1)
        ELSE replace(range_name, '.', '/')
    END AS class,
    CASE
        WHEN name LIKE 'nn.Module: %' THEN TRY_CAST(regexp_extract(name, '_(\d+)$', 1) AS BIGINT)
        ELSE decoder_layer(range_name)
    END AS number
FROM event
WHERE
    (kind = 'frame' AND name LIKE 'nn.Module: %')
    OR (
        kind = 'annotation'
        AND regexp_matches(name, '^module: |^\{''Module'': |(^|\.)layers\.\d+(\.|$)')
        AND NOT regexp_matches(name, '^\{''Module'': .*''Outputs'': ')
    )
