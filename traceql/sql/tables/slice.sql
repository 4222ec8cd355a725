-- One row per event with a duration, of any category, on the host or on the GPU, as it is in the file.
-- @kind   source
-- @schema main
-- @scope  rank
-- @column id           BIGINT   Id of the slice, unique across all ranks. A kernel or a launch call has the same number in kernel.id or launch.id.
-- @column rank         BIGINT   Rank that recorded the event; NULL for a host process.
-- @column cat          VARCHAR  Event category as in the file: kernel, cpu_op, python_function ...
-- @column name         VARCHAR  Name as in the file.
-- @column ts           BIGINT   Start, ns since the run's first event.
-- @column dur          BIGINT   Duration, ns.
-- @column pid          BIGINT   Process id as in the file; NULL if it is not an integer (see track).
-- @column tid          BIGINT   Thread id as in the file; NULL if it is not an integer (see track).
-- @column track_id     BIGINT   Process and thread of the event, or device and stream (track.id).
-- @column parent_id    BIGINT   Slice that directly encloses this one (slice.id); NULL at the top.
-- @column depth        BIGINT   Number of slices that enclose this one.
-- @column external_id  BIGINT   Argument "External id": connects an operator with its launch calls and kernels.
-- @column correlation  BIGINT   Argument "correlation": connects a launch call with the GPU activities that it started.
-- @column args         JSON     Arguments as in the file, as JSON.
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
