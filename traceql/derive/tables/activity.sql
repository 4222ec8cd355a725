-- One row per slice of a GPU category: the arguments that say where it ran; kernel has the rest.
-- @kind   source
-- @scope  rank
-- @column id             BIGINT     Row of slice.
-- @column device         BIGINT     Argument "device".
-- @column stream         BIGINT     Argument "stream".
-- @column bytes          BIGINT     Argument "bytes".
-- @column grid           INTEGER[]  Argument "grid".
-- @column block          INTEGER[]  Argument "block".
-- @column graph_node_id  BIGINT     Argument "graph node id"; NULL where the profiler writes none.
CREATE TABLE IF NOT EXISTS activity (
    id BIGINT,
    device BIGINT,
    stream BIGINT,
    bytes BIGINT,
    grid INTEGER[],
    block INTEGER[],
    graph_node_id BIGINT
)
