-- The profiler made the run slower.
-- @title      profiler overhead
-- @notable    10
-- @severe     30
-- @unit       % of the run
-- @evidence   overview.run
-- @advice     Record without stacks, and fewer steps. Do not read latencies off this trace.
-- @source     own
-- @needs      run
SELECT
    overhead_pct AS value,
    profiled_ns - unprofiled_ns AS cost_ns,
    format('The profiler made this run {:.0f}% slower.', overhead_pct) AS finding
FROM run
