# One row per slice inside the call of a module: the innermost module around it.
#
# Calls of modules are nn.Module frames of a trace with Python stacks, and ranges that are named after
# modules: model.layers.12.self_attn.qkv_proj, with or without "module: " in front, or a Python
# dictionary with the key Module, as vLLM writes with --enable-layerwise-nvtx-tracing. That also writes
# a range with the outputs after each call, which encloses nothing.
# @kind   scratch
# @scope  rank
# @needs  decoder_layer, event_kind, slice
# @column id               BIGINT   Slice (slice.id).
# @column rank             BIGINT   Rank that recorded it.
# @column module_id        BIGINT   Innermost call of a module around the slice (module.id); the slice itself if it is such a call.
# @column outer_module_id  BIGINT   Call of the module around that one; NULL at the top.
# @column kind             VARCHAR  module (frame) or annotation (range) if the slice is such a call; else NULL.
# @column class            VARCHAR  Class of the module; for a range, its name with slashes in place of dots. NULL if kind is.
# @column number           BIGINT   Number of the instance in the name of the frame; for a range, the layer in its name. NULL if kind is.

"""Finds the calls of modules, and then what is inside them."""

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import query_tables, spilled

_CALLS = """
    WITH event AS (
        SELECT
            slice.id, slice.rank, slice.name, event_kind.kind,
            COALESCE(
                NULLIF(regexp_extract(slice.name, '^\\{''Module'': ''([^'']+)''', 1), ''),
                regexp_replace(slice.name, '^module: ', '')
            ) AS range_name
        FROM slice
        INNER JOIN event_kind USING (rank, cat)
        WHERE event_kind.kind IN ('frame', 'annotation')
    )
    SELECT
        id, rank,
        CASE WHEN name LIKE 'nn.Module: %' THEN 'module' ELSE 'annotation' END AS kind,
        CASE
            WHEN name LIKE 'nn.Module: %' THEN regexp_extract(name, '^nn\\.Module: (.*?)(_\\d+)?$', 1)
            ELSE replace(range_name, '.', '/')
        END AS class,
        CASE
            WHEN name LIKE 'nn.Module: %' THEN TRY_CAST(regexp_extract(name, '_(\\d+)$', 1) AS BIGINT)
            ELSE decoder_layer(range_name)
        END AS number
    FROM event
    WHERE
        (kind = 'frame' AND name LIKE 'nn.Module: %')
        OR (
            kind = 'annotation'
            AND regexp_matches(name, '^module: |^\\{''Module'': |(^|\\.)(layers?|h|blocks?)\\.\\d+(\\.|$)')
            AND NOT regexp_matches(name, '^\\{''Module'': .*''Outputs'': ')
        )
"""
_INSIDE = """
    WITH RECURSIVE inside AS (
        SELECT slice.id, slice.rank, module_slice.id AS module_id, CAST(NULL AS BIGINT) AS outer_module_id
        FROM slice
        LEFT JOIN incoming AS module_slice USING (id)
        WHERE slice.parent_id IS NULL AND slice.rank IN (SELECT rank FROM incoming)
        UNION ALL
        SELECT child.id, child.rank, COALESCE(module_slice.id, inside.module_id), inside.module_id
        FROM inside
        INNER JOIN (
            SELECT id, rank, parent_id FROM slice WHERE rank IN (SELECT rank FROM incoming)
        ) AS child ON inside.id = child.parent_id
        LEFT JOIN incoming AS module_slice ON child.id = module_slice.id
    )
    SELECT
        inside.id, inside.rank, inside.module_id, inside.outer_module_id, module_slice.kind,
        module_slice.class, module_slice.number
    FROM inside
    LEFT JOIN incoming AS module_slice ON inside.id = module_slice.id
    WHERE inside.module_id IS NOT NULL
"""


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield declared_schema(__file__).empty_table()
    with spilled(con, query_tables(con, _CALLS)) as calls:
        if len(calls):
            con.register("incoming", calls)
            yield from query_tables(con, _INSIDE)
            con.unregister("incoming")
