"""Loads the modules of CUDA graph nodes, if they were recorded when the graphs were captured."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb

from traceql.database.loading.json_document import checked, json_document
from traceql.database.loading.side_files import GRAPH_NODES, folders_beside
from traceql.errors import ModelConfigInvalid
from traceql.util.input_file import Unusable

# Without leading zeros, so that no node has two names.
_NODE = re.compile(r"0|[1-9][0-9]{0,18}")


def write_graph_nodes(con: duckdb.DuckDBPyConnection, rank: int, trace: Path) -> None:
    """Fills `graph_node` from the graph_nodes.json beside a rank's trace, if there is one.

    The file maps ranks, as text, to objects that map the number that the profiler gives as
    "graph node id" to the module that launched the node's kernel during capture:
    `{"0": {"4294967301": "model.layers.3.self_attn.qkv_proj"}}`.

    Raises:
        ModelConfigInvalid: the file exists, but cannot be read.
    """
    for path in (folder / GRAPH_NODES for folder in folders_beside(trace)):
        try:
            if not path.exists():
                continue
            modules = checked(json_document(path).value, dict[str, dict[str, str]])
            rows = list(_rows(rank, modules.get(str(rank), {})))
        except (OSError, Unusable) as error:
            raise ModelConfigInvalid(
                f"{path} is not a map of graph nodes: {error}; correct it, or move it away"
            ) from None
        if rows:
            con.executemany("INSERT INTO graph_node VALUES (?, ?, ?)", rows)
        return


def _rows(rank: int, nodes: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    for node, module in nodes.items():
        if not _NODE.fullmatch(node) or int(node) >= 2**63:
            raise Unusable(f"'{node[:40]}' of rank {rank} is not the number of a graph node")
        yield rank, int(node), module.replace(".", "/")
