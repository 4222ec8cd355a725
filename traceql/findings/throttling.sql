-- GPUs were throttled while the profiler recorded.
-- @title      throttling
-- @notable    1
-- @severe     10
-- @unit       % of samples
-- @evidence   gpu.telemetry
-- @advice     Check the power cap and the cooling. Compare only runs with equal clocks.
-- @source     own: times with throttled clocks cannot be compared
-- @needs      telemetry
SELECT
    100.0 * COUNT(*) FILTER (throttled) / COUNT(*) AS value,
    NULL::BIGINT AS cost_ns,
    format(
        'The GPUs were throttled in {:,} of {:,} samples (of all GPUs of the machine, with or without a rank).',
        COUNT(*) FILTER (throttled), COUNT(*)
    ) AS finding
FROM telemetry
WHERE in_window
HAVING COUNT(*) > 0
