-- One row per measured product of matrices, from peaks.json; empty without one.
-- @scope  run
-- @needs  measured_device
-- @empty_unless measured_device
-- @column device_name       VARCHAR  Name of the GPU.
-- @column dtype             VARCHAR  Type of the numbers: bf16, fp8 or int8.
-- @column m                 BIGINT   Rows of the left matrix and of the product: tokens, in a model.
-- @column k                 BIGINT   Columns of the left matrix: inputs.
-- @column n                 BIGINT   Columns of the product: outputs.
-- @column ns                DOUBLE   Median duration, ns: of its kernels in a burst, otherwise from launch to launch.
-- @column mad_ns            DOUBLE   Median absolute deviation of the duration, ns; NULL if unknown.
-- @column fastest_ns        DOUBLE   Shortest duration of its kernels in all bursts, ns; NULL if unknown.
-- @column role              VARCHAR  Part of the model with these k and n, such as qkv_proj; NULL for a shape of no model.
-- @column load              VARCHAR  sustained (the GPU worked without a pause, so that the limit of its power lowers the clock) or burst (with pauses before, as a step after idle time).
-- @column tflops            DOUBLE   2 x m x k x n / fastest_ns, or / ns where it is NULL: 1e12 floating-point operations per second.
-- @column sm_clock_mhz      BIGINT   Clock of the multiprocessors right after it, MHz; NULL if unknown.
-- @column throttle_reasons  BIGINT   NVML's bit mask of the reasons why the clocks were lower than they could be; NULL if unknown.
SELECT
    device_name,
    found.dtype,
    found.m,
    found.k,
    found.n,
    found.ns,
    found.mad_ns,
    found.fastest_ns,
    found.role,
    found.load,
    CAST(2 AS DOUBLE) * found.m * found.k * found.n / COALESCE(found.fastest_ns, found.ns) / 1000 AS tflops,
    found.sm_clock_mhz,
    found.throttle_reasons
FROM (
    SELECT
        device_name,
        UNNEST(from_json(document -> '$.products', '[{
            "dtype": "VARCHAR", "m": "BIGINT", "k": "BIGINT", "n": "BIGINT", "ns": "DOUBLE", "mad_ns": "DOUBLE",
            "fastest_ns": "DOUBLE", "role": "VARCHAR", "load": "VARCHAR", "sm_clock_mhz": "BIGINT", "throttle_reasons": "BIGINT"
        }]')) AS found
    FROM measured_device
)
