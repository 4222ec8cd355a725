-- One row per node of a CUDA graph whose module the file graph_nodes.json next to the trace names.
-- @kind   source
-- @scope  rank
-- @column rank           BIGINT   Rank that captured the graph.
-- @column graph_node_id  BIGINT   Number of the node; the argument "graph node id" of its kernels.
-- @column path           VARCHAR  Module that the node was captured in, with slashes between the names.
CREATE TABLE IF NOT EXISTS graph_node (
    rank BIGINT,
    graph_node_id BIGINT,
    path VARCHAR
)
