-- One row per GPU activity in the files (kernel, memory copy or memory set): where it ran, and its size.
--
-- The table kernel adds everything else that is known of an activity.
-- @kind   source
-- @scope  rank
-- @column id             BIGINT     Id of the activity; the same number as slice.id.
-- @column device         BIGINT     Argument "device" of the event: number of the device on its machine; NULL if the event has none.
-- @column stream         BIGINT     Argument "stream" of the event: number of the stream; NULL if the event has none.
-- @column bytes          BIGINT     Argument "bytes" of the event: bytes copied or set; NULL for kernels.
-- @column grid           INTEGER[]  Argument "grid" of the event: blocks in x, y and z.
-- @column block          INTEGER[]  Argument "block" of the event: threads of a block in x, y and z.
-- @column graph_node_id  BIGINT     Argument "graph node id" of the event: node of the CUDA graph that was replayed; NULL if the profiler wrote none.
CREATE TABLE IF NOT EXISTS activity (
    id BIGINT,
    device BIGINT,
    stream BIGINT,
    bytes BIGINT,
    grid INTEGER[],
    block INTEGER[],
    graph_node_id BIGINT
)
