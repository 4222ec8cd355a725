-- One row per complete event of any category, as it stands in the file.
-- @kind   source
-- @scope  rank
-- @column id           BIGINT   Unique over all ranks; kernel.id and launch.id are the same number.
-- @column rank         BIGINT   Rank that recorded the event.
-- @column cat          VARCHAR  Category as in the file: kernel, cpu_op, python_function, ...
-- @column name         VARCHAR  Name as in the file.
-- @column ts           BIGINT   Start, ns since trace.base_time_ns.
-- @column dur          BIGINT   Duration, ns.
-- @column pid          BIGINT   Process id as in the file; NULL where it is no integer (see track).
-- @column tid          BIGINT   Thread id as in the file; NULL where it is no integer (see track).
-- @column track_id     BIGINT   Row of track: the process and thread.
-- @column parent_id    BIGINT   Row of slice that encloses this one; NULL at the top.
-- @column depth        BIGINT   Enclosing slices.
-- @column external_id  BIGINT   Argument "External id": joins an operator, its launches and kernels.
-- @column correlation  BIGINT   Argument "correlation": joins a launch and what it launched.
-- @column args         JSON     Arguments as in the file, JSON.
CREATE TABLE IF NOT EXISTS slice (
    id BIGINT,
    rank BIGINT,
    cat VARCHAR,
    name VARCHAR,
    ts BIGINT,
    dur BIGINT,
    pid BIGINT,
    tid BIGINT,
    track_id BIGINT,
    parent_id BIGINT,
    depth BIGINT,
    external_id BIGINT,
    correlation BIGINT,
    args JSON USING COMPRESSION zstd
)
