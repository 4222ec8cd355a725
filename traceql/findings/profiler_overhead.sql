-- The profiler made the run much slower.
-- @title      profiler overhead
-- @notable    10
-- @severe     30
-- @unit       % of the run
-- @evidence   overview.recording
-- @advice     Record without stacks, and fewer steps. Do not read latencies from this trace.
-- @source     own: from 10% on, times in the trace differ clearly from real ones
-- @needs      run
SELECT
    overhead_pct AS value,
    profiled_ns - unprofiled_ns AS cost_ns,
    format('The profiler made this run {:.0f}% slower.', overhead_pct) AS finding
FROM run
