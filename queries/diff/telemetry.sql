-- One row per GPU: its clocks, power and temperature on both sides while the profiler recorded.
--
-- Use it before you trust a small difference: a GPU at a lower clock computes more slowly. Reads the
-- first database of each side.
-- @column gpu                     BIGINT   Number of the GPU on its machine.
-- @column base_sm_clock_mhz       DOUBLE   Mean SM clock in base, MHz; NULL if base has no telemetry of the GPU.
-- @column new_sm_clock_mhz        DOUBLE   The same of new, MHz.
-- @column base_throttled_pct      DOUBLE   Samples of base in which the GPU was throttled, percent.
-- @column new_throttled_pct       DOUBLE   The same of new, percent.
-- @column base_power_mw           DOUBLE   Mean power draw in base, milliwatts.
-- @column new_power_mw            DOUBLE   The same of new, milliwatts.
-- @column base_max_temperature_c  BIGINT   Highest temperature in base, degrees Celsius.
-- @column new_max_temperature_c   BIGINT   The same of new, degrees Celsius.
-- @column base_samples            BIGINT   Number of samples of base.
-- @column new_samples             BIGINT   The same of new.
-- @reads  base new
-- @key    gpu base_sm_clock_mhz new_sm_clock_mhz base_throttled_pct new_throttled_pct base_power_mw new_power_mw
-- @empty  neither side has telemetry; it comes with run directories that traceql capture recorded where NVML is
-- @chart  dumbbell x=base_sm_clock_mhz,new_sm_clock_mhz y=gpu
-- @title  SM clock of each GPU, base against new
WITH sampled AS (
    SELECT 'base' AS side, gpu, sm_clock_mhz, throttled, power_mw, temperature_c FROM base.telemetry WHERE in_window
    UNION ALL
    SELECT 'new', gpu, sm_clock_mhz, throttled, power_mw, temperature_c FROM new.telemetry WHERE in_window
)
SELECT
    gpu,
    AVG(sm_clock_mhz) FILTER (side = 'base') AS base_sm_clock_mhz,
    AVG(sm_clock_mhz) FILTER (side = 'new') AS new_sm_clock_mhz,
    100.0 * COUNT(*) FILTER (throttled AND side = 'base') / NULLIF(COUNT(*) FILTER (side = 'base'), 0) AS base_throttled_pct,
    100.0 * COUNT(*) FILTER (throttled AND side = 'new') / NULLIF(COUNT(*) FILTER (side = 'new'), 0) AS new_throttled_pct,
    AVG(power_mw) FILTER (side = 'base') AS base_power_mw,
    AVG(power_mw) FILTER (side = 'new') AS new_power_mw,
    MAX(temperature_c) FILTER (side = 'base') AS base_max_temperature_c,
    MAX(temperature_c) FILTER (side = 'new') AS new_max_temperature_c,
    COUNT(*) FILTER (side = 'base') AS base_samples,
    COUNT(*) FILTER (side = 'new') AS new_samples
FROM sampled
GROUP BY gpu
ORDER BY gpu
