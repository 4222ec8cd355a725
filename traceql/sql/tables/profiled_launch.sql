-- One row per launch that Nsight Compute profiled.
--
-- It ran them one at a time, several times each, mostly with fixed clocks and empty caches: counts
-- hold for the launches of a trace too, durations do not.
-- @kind   source
-- @scope  run
-- @column id                  BIGINT     Id of the launch.
-- @column file_id             BIGINT     File (profile_file.id).
-- @column number              BIGINT     Number in the file (ID), from 0.
-- @column process_id          BIGINT     Process that launched it; NULL if the file does not have it.
-- @column device              BIGINT     Number of the device; NULL if the file does not have it.
-- @column device_name         VARCHAR    Name of the GPU; NULL if the file does not have it.
-- @column compute_capability  VARCHAR    Compute capability of the GPU, such as 9.0; NULL if the file does not have it.
-- @column context             BIGINT     CUDA context; NULL if the file does not have it.
-- @column stream              BIGINT     Stream as Nsight Compute numbers it; NULL if the file does not have it.
-- @column name                VARCHAR    Name of the kernel, as in the file.
-- @column kind                VARCHAR    kernel, graph (all kernels of a CUDA graph in one) or range.
-- @column grid                INTEGER[]  Blocks in x, y and z; NULL if the file does not have it.
-- @column block               INTEGER[]  Threads of a block in x, y and z; NULL if the file does not have it.
-- @column ranges              VARCHAR[]  NVTX ranges around the launch, the outermost one first; empty without --nvtx.
CREATE TABLE IF NOT EXISTS profiled_launch (
    id BIGINT PRIMARY KEY,
    file_id BIGINT,
    number BIGINT,
    process_id BIGINT,
    device BIGINT,
    device_name VARCHAR,
    compute_capability VARCHAR,
    context BIGINT,
    stream BIGINT,
    name VARCHAR,
    kind VARCHAR,
    grid INTEGER[],
    block INTEGER[],
    ranges VARCHAR[]
)
