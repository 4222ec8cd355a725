"""Loads the modules of CUDA graph nodes, if they were recorded when the graphs were captured."""

import json
from pathlib import Path

import duckdb

from traceql.errors import ModelConfigInvalid

FILE = "graph_nodes.json"


def write_graph_nodes(con: duckdb.DuckDBPyConnection, rank: int, trace: Path) -> None:
    """Fills `graph_node` from the graph_nodes.json beside a rank's trace, if there is one.

    The file maps ranks, as text, to objects that map the number that the profiler gives as
    "graph node id" to the module that launched the node's kernel during capture:
    `{"0": {"4294967301": "model.layers.3.self_attn.qkv_proj"}}`.

    Raises:
        ModelConfigInvalid: the file exists, but cannot be read.
    """
    path = next((f / FILE for f in trace.parents[:2] if (f / FILE).is_file()), None)
    if path is None:
        return
    try:
        nodes = json.loads(path.read_text(encoding="utf-8")).get(str(rank), {})
        rows = [(rank, int(node), module.replace(".", "/")) for node, module in nodes.items()]
    except (OSError, ValueError, AttributeError) as error:
        raise ModelConfigInvalid(f"{path} is not a map of graph nodes: {error}") from None
    if rows:
        con.executemany("INSERT INTO graph_node VALUES (?, ?, ?)", rows)
