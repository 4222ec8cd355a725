-- One row per GPU and sample of NVML, as recorded.
-- @kind   source
-- @scope  run
-- @column run                VARCHAR  Path of the run directory.
-- @column unix_ns            BIGINT   Time of the sample, Unix time, ns.
-- @column gpu                BIGINT   Number of the GPU on its machine, as NVML counts.
-- @column uuid               VARCHAR  Unique identifier of the GPU.
-- @column utilization_pct    BIGINT   Share of NVML's last sampling period in which a kernel ran, percent.
-- @column memory_used_bytes  BIGINT   Memory in use by all programs, bytes.
-- @column temperature_c      BIGINT   Temperature of the GPU, degrees Celsius.
-- @column power_mw           BIGINT   Power draw, milliwatts.
-- @column sm_clock_mhz       BIGINT   Clock of the streaming multiprocessors, MHz.
-- @column throttle_reasons   BIGINT   NVML's bit mask of the reasons why the clocks are lower than they could be.
CREATE TABLE IF NOT EXISTS telemetry_sample (
    run VARCHAR,
    unix_ns BIGINT,
    gpu BIGINT,
    uuid VARCHAR,
    utilization_pct BIGINT,
    memory_used_bytes BIGINT,
    temperature_c BIGINT,
    power_mw BIGINT,
    sm_clock_mhz BIGINT,
    throttle_reasons BIGINT
)
