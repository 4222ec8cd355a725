-- One row per GPU: clocks, power and temperature while the profiler recorded.
--
-- Use it to check that the GPU was not throttled before you trust its times. Throttled means that a
-- power cap, a thermal slowdown or a hardware slowdown held the clocks down. Samples are 100 ms
-- apart, so a short window has few of them. GPUs without a rank are listed too.
-- @param  window                 VARCHAR = recorded  recorded, or all for all samples since the engine started.
-- @values window                 recorded all
-- @column gpu                    BIGINT   Number of the GPU on its machine.
-- @column rank                   BIGINT   Rank that ran on the GPU; NULL if none did.
-- @column samples                BIGINT   Number of samples.
-- @column throttled              BOOLEAN  Whether the GPU was throttled in any sample.
-- @column throttled_pct          DOUBLE   Samples in which the GPU was throttled, percent.
-- @column min_sm_clock_mhz       BIGINT   Lowest SM clock, MHz.
-- @column mean_sm_clock_mhz      DOUBLE   Mean SM clock, MHz.
-- @column mean_power_mw          DOUBLE   Mean power draw, milliwatts.
-- @column max_temperature_c      BIGINT   Highest temperature, degrees Celsius.
-- @column mean_utilization_pct   DOUBLE   Mean utilization reported by NVML, percent.
-- @column max_memory_used_bytes  BIGINT   Highest memory use of all programs on the GPU, bytes.
-- @key    gpu rank throttled throttled_pct min_sm_clock_mhz mean_sm_clock_mhz mean_power_mw max_temperature_c
-- @empty  there is no telemetry; it comes with run directories that traceql capture recorded where NVML is
-- @chart  bar x=mean_sm_clock_mhz y=gpu color=throttled
-- @title  SM clock of each GPU during the recording
SELECT
    gpu,
    ANY_VALUE(rank) AS rank,
    COUNT(*) AS samples,
    BOOL_OR(throttled) AS throttled,
    100.0 * COUNT(*) FILTER (throttled) / COUNT(*) AS throttled_pct,
    MIN(sm_clock_mhz) AS min_sm_clock_mhz,
    AVG(sm_clock_mhz) AS mean_sm_clock_mhz,
    AVG(power_mw) AS mean_power_mw,
    MAX(temperature_c) AS max_temperature_c,
    AVG(utilization_pct) AS mean_utilization_pct,
    MAX(memory_used_bytes) AS max_memory_used_bytes
FROM telemetry
WHERE in_window OR $window::VARCHAR = 'all'
GROUP BY run, gpu
ORDER BY gpu
