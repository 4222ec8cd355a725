-- One row per measurement of a GPU's memory, from peaks.json; empty without one.
-- @scope  run
-- @needs  measured_device
-- @empty_unless measured_device
-- @column device_name       VARCHAR  Name of the GPU.
-- @column op                VARCHAR  What was done: copy (half of the bytes are read, half written) or read.
-- @column bytes             BIGINT   Bytes read and written.
-- @column ns                DOUBLE   Median duration, ns: of its kernel when it reads, from copy to copy when it copies.
-- @column mad_ns            DOUBLE   Median absolute deviation of the duration, ns; NULL if unknown.
-- @column fastest_ns        DOUBLE   Shortest duration of its kernel, ns; NULL if unknown.
-- @column gbps              DOUBLE   bytes / fastest_ns, or / ns where it is NULL: 1e9 bytes per second.
-- @column gpu               BIGINT   GPU that was measured, as nvidia-smi numbers it; NULL for the first of those that traceql measured.
-- @column source            VARCHAR  Program whose file it was imported from, such as nvbandwidth; NULL if traceql measured it.
-- @column sm_clock_mhz      BIGINT   Clock of the multiprocessors right after it, MHz; NULL if unknown.
-- @column throttle_reasons  BIGINT   NVML's bit mask of the reasons why the clocks were lower than they could be; NULL if unknown.
SELECT
    device_name,
    found.op,
    found.bytes,
    found.ns,
    found.mad_ns,
    found.fastest_ns,
    found.bytes / COALESCE(found.fastest_ns, found.ns) AS gbps,
    found.gpu,
    found.source,
    found.sm_clock_mhz,
    found.throttle_reasons
FROM (
    SELECT
        device_name,
        UNNEST(from_json(document -> '$.memory', '[{
            "op": "VARCHAR", "bytes": "BIGINT", "ns": "DOUBLE", "mad_ns": "DOUBLE", "fastest_ns": "DOUBLE",
            "gpu": "BIGINT", "source": "VARCHAR", "sm_clock_mhz": "BIGINT", "throttle_reasons": "BIGINT"
        }]')) AS found
    FROM measured_device
)
