-- One row per node of a CUDA graph whose module the capture wrote down (graph_nodes.json).
-- @kind   source
-- @scope  rank
-- @column rank           BIGINT   Rank that captured the graph.
-- @column graph_node_id  BIGINT   Argument "graph node id" of its kernels.
-- @column path           VARCHAR  Module that was captured there, with slashes.
CREATE TABLE IF NOT EXISTS graph_node (
    rank BIGINT,
    graph_node_id BIGINT,
    path VARCHAR
)
