"""Names the nodes of replayed graphs by the modules and operators of their capture.

A node of a graph has a number in the graph, in the order of the capture, and so have the launch
calls in a recording of the capture. A capture fits a replayed graph if both have equally many, and
memory copies and memory sets are in the same places. Where several captures fit a graph, a node has
a module if they agree on it, and likewise an operator with shapes, and a stack.
"""

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from traceql.database.loading.graph_captures import GraphCapture
from traceql.readers.dialects.registry import kind_of

_EVENTS = ["index", "cat", "name", "ts", "parent", "args"]
_KIND = "CASE WHEN name LIKE '%Memset%' THEN 'set' WHEN name LIKE '%Memcpy%' THEN 'copy' END"
_CAPTURED = f"""
    CREATE OR REPLACE TEMP TABLE captured AS
    WITH RECURSIVE call AS (
        SELECT
            index, event.parent, event.name, capture,
            ROW_NUMBER() OVER (PARTITION BY capture ORDER BY event.ts, index) AS place,
            COUNT(*) OVER (PARTITION BY capture) AS nodes
        FROM captured_call
        INNER JOIN incoming AS event USING (index)
    ),
    around AS (
        SELECT index AS call, parent AS index, 1 AS level FROM call WHERE parent IS NOT NULL
        UNION ALL
        SELECT around.call, incoming.parent, around.level + 1
        FROM around
        INNER JOIN incoming USING (index)
        WHERE incoming.parent IS NOT NULL
    ),
    operator AS (
        SELECT
            around.call,
            arg_min({{'name': name, 'args': args}}, around.level) AS inner_one
        FROM around
        INNER JOIN incoming USING (index)
        WHERE list_contains($operators, cat)
        GROUP BY around.call
    ),
    stack AS (
        SELECT around.call, string_agg(name, ' > ' ORDER BY around.level DESC) AS names
        FROM around
        INNER JOIN incoming USING (index)
        WHERE list_contains($frames, cat)
        GROUP BY around.call
    ),
    module AS (
        SELECT
            around.call, around.level, around.index,
            name LIKE 'nn.Module: %' AS is_frame,
            CASE
                WHEN name LIKE 'nn.Module: %'
                    THEN regexp_extract(name, '^nn\\.Module: (.*?)(_\\d+)?$', 1)
                ELSE replace(regexp_replace(name, '^module: ', ''), '.', '/')
            END AS class,
            TRY_CAST(regexp_extract(name, '_(\\d+)$', 1) AS BIGINT) AS number
        FROM around
        INNER JOIN incoming USING (index)
        WHERE
            name LIKE 'nn.Module: %'
            OR regexp_matches(name, '^module: |(^|\\.)(layers?|h|blocks?)\\.\\d+(\\.|$)')
    ),
    -- A range has the whole path; frames have a class each.
    path AS (
        SELECT
            call,
            COALESCE(
                arg_min(class, level) FILTER (NOT is_frame),
                string_agg(
                    CASE
                        WHEN regexp_matches(class, '(Decoder|Transformer)(Layer|Block)$')
                            THEN concat('layers/', number, '/', class)
                        ELSE class
                    END, '/' ORDER BY level DESC
                )
            ) AS path,
            arg_min(index, level) AS inner_call,
            arg_min(class, level) AS class
        FROM module
        GROUP BY call
    ),
    outer_call AS (
        SELECT path.call, module.index AS parent_call
        FROM path
        LEFT JOIN module ON path.call = module.call AND module.index <> path.inner_call
        QUALIFY ROW_NUMBER() OVER (PARTITION BY path.call ORDER BY module.level) = 1
    )
    SELECT
        call.capture, call.place, call.nodes, {_KIND} AS kind, path.path,
        dense_rank() OVER (
            PARTITION BY outer_call.parent_call, path.class ORDER BY path.inner_call
        ) AS position,
        operator.inner_one.name AS operator,
        json_extract(operator.inner_one.args, '$."Input Dims"')::VARCHAR AS shapes,
        json_extract(operator.inner_one.args, '$."Input type"')::VARCHAR AS types,
        stack.names AS stack
    FROM call
    LEFT JOIN path ON call.index = path.call
    LEFT JOIN outer_call ON call.index = outer_call.call
    LEFT JOIN operator ON call.index = operator.call
    LEFT JOIN stack ON call.index = stack.call
"""
# What the captures that fit agree on; NULL if they do not.
_AGREED = """
        CASE
            WHEN COUNT(DISTINCT ({key})) = 1 AND COUNT({column}) = COUNT(*) THEN ANY_VALUE({column})
        END AS {column}"""
_AGREEMENTS = ",".join(
    _AGREED.format(column=column, key=key)
    for column, key in (
        ("path", "path, position"),
        ("position", "path, position"),
        ("operator", "operator, shapes"),
        ("shapes", "operator, shapes"),
        ("types", "operator, shapes, types"),
        ("stack", "stack"),
    )
)
_NODES = f"""
    WITH replayed AS (
        SELECT
            slice.rank, activity.graph_node_id,
            activity.graph_node_id >> 32 AS graph,
            ANY_VALUE({_KIND}) AS kind
        FROM activity
        INNER JOIN slice USING (id)
        WHERE activity.graph_node_id IS NOT NULL AND slice.rank IS NOT NULL
        GROUP BY slice.rank, activity.graph_node_id
    ),
    node AS (
        SELECT
            *,
            ROW_NUMBER() OVER (PARTITION BY rank, graph ORDER BY graph_node_id) AS place,
            COUNT(*) OVER (PARTITION BY rank, graph) AS nodes
        FROM replayed
    ),
    fitting AS (
        SELECT node.rank, node.graph, captured.file, captured.capture
        FROM node
        INNER JOIN all_captured AS captured USING (place, nodes)
        GROUP BY node.rank, node.graph, captured.file, captured.capture
        -- In a graph, the driver may run a small copy as a kernel, but nothing else as a copy.
        HAVING
            COUNT(*) = ANY_VALUE(nodes)
            AND BOOL_AND(node.kind IS NULL OR node.kind IS NOT DISTINCT FROM captured.kind)
    )
    SELECT
        node.rank, node.graph_node_id, {_AGREEMENTS}
    FROM fitting
    INNER JOIN node USING (rank, graph)
    INNER JOIN all_captured AS captured USING (file, capture, place)
    WHERE (node.rank, node.graph_node_id) NOT IN (SELECT (rank, graph_node_id) FROM graph_node)
    GROUP BY node.rank, node.graph_node_id
    HAVING path IS NOT NULL OR operator IS NOT NULL
"""


def add_captured_nodes(con: duckdb.DuckDBPyConnection, captures: Sequence[GraphCapture]) -> int:
    """Adds rows to `graph_node` for the graphs that captures fit; returns their number.

    The file graph_nodes.json decides where it names a node.
    """
    if not captures:
        return 0
    for number, capture in enumerate(captures):
        parts = [part.select(_EVENTS) for _, part in capture.file.parts("slice")]
        incoming = pa.concat_tables(parts)
        con.register("incoming", incoming)
        con.register("captured_call", capture.calls)
        con.execute(_CAPTURED, _categories(incoming, capture.file.dialect))
        con.unregister("captured_call")
        con.unregister("incoming")
        rows = f"SELECT {number} AS file, * FROM captured"
        con.execute(
            f"CREATE TEMP TABLE all_captured AS {rows}"
            if number == 0
            else f"INSERT INTO all_captured {rows}"
        )
    added = con.execute(f"INSERT INTO graph_node {_NODES}").fetchall()[0][0]
    con.execute("DROP TABLE captured; DROP TABLE all_captured")
    return int(added)


def _categories(events: pa.Table, dialect: str) -> dict[str, list[str]]:
    """The categories of operators and of frames of Python among events."""
    cats = [cat for cat in events["cat"].unique().to_pylist() if cat is not None]
    return {
        f"{kind}s": [cat for cat in cats if kind_of(dialect, cat) == kind]
        for kind in ("operator", "frame")
    }
