-- One row per trace file.
-- @kind   source
-- @scope  rank
-- @column rank            BIGINT   Global rank, unique; the ledger says where it comes from.
-- @column world_size      BIGINT   Ranks of the job, loaded or not.
-- @column tp_rank         BIGINT   Tensor-parallel rank; NULL where the file name has none.
-- @column pp_rank         BIGINT   Pipeline-parallel rank; NULL where the file name has none.
-- @column dp_rank         BIGINT   Data-parallel rank; NULL where the file name has none.
-- @column ep_rank         BIGINT   Expert-parallel rank; NULL where the file name has none.
-- @column device_name     VARCHAR  GPU name of the first device that ran a kernel.
-- @column base_time_ns    BIGINT   The time that ts = 0 stands for, ns: the run's first event; Unix time where the profiler wrote baseTimeNanoseconds or absolute times.
-- @column file_offset_ns  BIGINT   What was added to the file's own times to get ts, ns: ts = file time + file_offset_ns.
-- @column path            VARCHAR  Absolute path of the file when it was loaded.
-- @column sha256          VARCHAR  SHA-256 of the file as it is on disk, hexadecimal.
-- @column size_bytes      BIGINT   Size of the file as it is on disk, bytes.
-- @column reader          VARCHAR  What read the file: kineto, perfetto or another reader.
-- @column format          VARCHAR  json (Kineto and other Chrome traces) or perfetto (native).
-- @column metadata        JSON     Every top-level key of the file but traceEvents, as JSON.
CREATE TABLE IF NOT EXISTS trace (
    rank BIGINT PRIMARY KEY,
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
    metadata JSON
)
