-- One row per row of a CSV file that was given with `traceql load --peaks`; empty without one.
-- @kind   source
-- @scope  rank
-- @column position      BIGINT   Order of the rows, from 0; of the patterns that match a device's name, the first counts.
-- @column device        VARCHAR  RE2 regular expression, which may match anywhere in the device's name.
-- @column example       VARCHAR  Name of such a device; NULL if not given.
-- @column dtype         VARCHAR  Type of the numbers that are multiplied: bf16 (also fp16), fp8, int8 or fp4.
-- @column tflops        DOUBLE   Dense peak, 1e12 floating-point operations per second; NULL if not given.
-- @column hbm_gbps      DOUBLE   Peak of the memory, 1e9 bytes per second; NULL if not given.
-- @column link_gbps     DOUBLE   Peak of the link to other devices in one direction, 1e9 bytes per second; NULL if not given.
-- @column l2_bytes      BIGINT   Size of the last cache before the memory, bytes; NULL if not given.
-- @column memory_bytes  BIGINT   Size of the memory, bytes; NULL if not given.
-- @column kernel_ns     BIGINT   Duration of a kernel that has nothing to do, ns; NULL if not given.
-- @column source        VARCHAR  The file, and the source that the row names.
CREATE TABLE IF NOT EXISTS user_peak (
    position BIGINT,
    device VARCHAR,
    example VARCHAR,
    dtype VARCHAR,
    tflops DOUBLE,
    hbm_gbps DOUBLE,
    link_gbps DOUBLE,
    l2_bytes BIGINT,
    memory_bytes BIGINT,
    kernel_ns BIGINT,
    source VARCHAR
)
