-- One row per GPU and sample of NVML, every 100 ms from the start of the engine until the last trace was written.
-- @schema main
-- @scope  run
-- @needs  integer_at, run, run_file, telemetry_sample, text_at, trace
-- @empty_unless telemetry_sample
-- @column run                VARCHAR  Path of the run directory.
-- @column ts                 BIGINT   Time of the sample, ns since the run's first event; negative before the trace began.
-- @column rank               BIGINT   Rank that ran on this GPU; NULL if none did.
-- @column gpu                BIGINT   Number of the GPU on its machine, as NVML counts.
-- @column uuid               VARCHAR  Unique identifier of the GPU.
-- @column utilization_pct    BIGINT   Share of NVML's last sampling period in which a kernel ran, percent.
-- @column memory_used_bytes  BIGINT   Memory in use by all programs, bytes.
-- @column temperature_c      BIGINT   Temperature of the GPU, degrees Celsius.
-- @column power_mw           BIGINT   Power draw, milliwatts.
-- @column sm_clock_mhz       BIGINT   Clock of the streaming multiprocessors, MHz.
-- @column throttle_reasons   BIGINT   NVML's bit mask of the reasons why the clocks are lower than they could be.
-- @column throttled          BOOLEAN  Whether a power cap, a thermal slowdown or a hardware slowdown held the clocks down.
-- @column in_window          BOOLEAN  Whether the profiler was recording.
WITH base AS (SELECT MIN(base_time_ns) AS base_ns FROM trace),
device AS (
    SELECT run, integer_at(entry, '$.rank') AS rank, text_at(entry, '$.device_uuid') AS uuid
    FROM (SELECT path AS run, UNNEST(from_json(document -> '$.ranks', '["JSON"]')) AS entry FROM run_file)
)
SELECT
    sample.run,
    TRY(sample.unix_ns - base.base_ns) AS ts,
    device.rank, sample.gpu, sample.uuid, sample.utilization_pct, sample.memory_used_bytes,
    sample.temperature_c, sample.power_mw, sample.sm_clock_mhz, sample.throttle_reasons,
    -- 236 has the bits for power cap, hardware and thermal slowdown and power brake, but not those
    -- for an idle GPU and for clocks that a user has set.
    sample.throttle_reasons & 236 != 0 AS throttled,
    TRY(sample.unix_ns - base.base_ns BETWEEN run.window_ts AND run.window_ts + run.window_dur)
        AS in_window
FROM telemetry_sample AS sample
CROSS JOIN base
INNER JOIN run USING (run)
LEFT JOIN device ON sample.run = device.run AND sample.uuid = device.uuid
ORDER BY ts, sample.gpu
