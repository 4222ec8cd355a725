-- One row per recording in a trace file: that of a rank, or of a host process without one, such as the front end of a server.
-- @kind   source
-- @schema main
-- @scope  rank
-- @column rank            BIGINT   Number of the rank in the run; unique. NULL for a host process. The ledger has its source (check "rank of world size").
-- @column world_size      BIGINT   Number of ranks in the run, loaded or not; NULL for a host process.
-- @column tp_rank         BIGINT   Tensor-parallel rank that run.json or the file name states; NULL if neither does. The table layout has what is known from all evidence.
-- @column pp_rank         BIGINT   Pipeline stage that run.json or the file name states; NULL if neither does.
-- @column dp_rank         BIGINT   Data-parallel rank that run.json or the file name states; NULL if neither does.
-- @column ep_rank         BIGINT   Expert-parallel rank that run.json or the file name states; NULL if neither does.
-- @column device_name     VARCHAR  Name of the first GPU that ran a kernel; NULL if the file does not have it.
-- @column base_time_ns    BIGINT   Time of the run's first event, which is 0 in all columns ts, ns. It is Unix time if the profiler wrote baseTimeNanoseconds or absolute times.
-- @column file_offset_ns  BIGINT   What was added to the times in the file, ns: ts = time in the file + file_offset_ns.
-- @column path            VARCHAR  Absolute path of the file when it was loaded.
-- @column sha256          VARCHAR  SHA-256 of the file as it is on disk, hexadecimal.
-- @column size_bytes      BIGINT   Size of the file as it is on disk, bytes.
-- @column reader          VARCHAR  Reader that read the file: kineto, perfetto or another one.
-- @column format          VARCHAR  json (Kineto and other Chrome traces) or perfetto (native).
-- @column dialect         VARCHAR  Vocabulary of the file's events; a folder of traceql/readers/dialects.
-- @column metadata        JSON     Known keys at the top of a JSON trace, without secrets; of another file, what its reader found. The ledger lists the keys that were left out.
CREATE TABLE IF NOT EXISTS trace (
    rank BIGINT,
    world_size BIGINT,
    tp_rank BIGINT,
    pp_rank BIGINT,
    dp_rank BIGINT,
    ep_rank BIGINT,
    device_name VARCHAR,
    base_time_ns BIGINT,
    file_offset_ns BIGINT,
    path VARCHAR,
    sha256 VARCHAR,
    size_bytes BIGINT,
    reader VARCHAR,
    format VARCHAR,
    dialect VARCHAR,
    metadata JSON
)
