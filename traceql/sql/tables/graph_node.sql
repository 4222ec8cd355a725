-- One row per node of a CUDA graph whose module or operator is known: from the file graph_nodes.json next to the trace, or from a recording of the capture.
-- @kind   source
-- @scope  rank
-- @column rank           BIGINT   Rank that captured the graph.
-- @column graph_node_id  BIGINT   Number of the node; the argument "graph node id" of its kernels.
-- @column path           VARCHAR  Module that the node was captured in, with slashes between the names; NULL if unknown.
-- @column position       BIGINT   Position of the module's call among those of its class in the same module, from 1; 1 if it is unknown.
-- @column operator       VARCHAR  Innermost operator that launched the node in the capture; NULL if unknown, as all that follows.
-- @column shapes         VARCHAR  Shape of each of its inputs as the profiler wrote it.
-- @column types          VARCHAR  Element type of each of its inputs as the profiler wrote it.
-- @column stack          VARCHAR  Frames of Python that it was launched in, from the outermost to the innermost, with ' > ' between them.
CREATE TABLE IF NOT EXISTS graph_node (
    rank BIGINT,
    graph_node_id BIGINT,
    path VARCHAR,
    position BIGINT,
    operator VARCHAR,
    shapes VARCHAR,
    types VARCHAR,
    stack VARCHAR
)
