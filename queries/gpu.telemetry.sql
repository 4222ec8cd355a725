-- One row per GPU: its clocks, power and temperature while the profiler recorded.
--
-- Samples are 100 ms apart, so a short window has few. Throttled: a power cap, a thermal or a
-- hardware slowdown held the clocks down; times measured then are not those of a free GPU.
-- @param  window                 VARCHAR = recorded  recorded, or all samples from engine start on.
-- @values window                 recorded all
-- @column gpu                    BIGINT   Number of the GPU on its host.
-- @column rank                   BIGINT   Rank that ran on it; NULL where none did.
-- @column samples                BIGINT   Samples.
-- @column throttled              BOOLEAN  Whether any sample was throttled.
-- @column throttled_pct          DOUBLE   Throttled samples, percent of samples.
-- @column min_sm_clock_mhz       BIGINT   Lowest clock of the multiprocessors, MHz.
-- @column mean_sm_clock_mhz      DOUBLE   Mean clock of the multiprocessors, MHz.
-- @column mean_power_mw          DOUBLE   Mean power draw, milliwatts.
-- @column max_temperature_c      BIGINT   Highest temperature, degrees Celsius.
-- @column mean_utilization_pct   DOUBLE   Mean of NVML's utilisation, percent.
-- @column max_memory_used_bytes  BIGINT   Most memory in use, by all programs, bytes.
-- @empty  telemetry comes with a run directory of a machine with NVIDIA GPUs: traceql capture
-- @chart  bar x=mean_sm_clock_mhz y=gpu color=throttled
-- @title  Clock of each GPU while it was recorded
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
