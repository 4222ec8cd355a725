-- The profiler made the run much slower.
-- @title      profiler overhead
-- @notable    10
-- @severe     100
-- @unit       % of the run
-- @evidence   overview.recording
-- @advice     Do not read latencies from this trace: serving.latency has those without the profiler too. Most
-- @advice     of the overhead is on the host, so idle time and waiting for a host are longer than in production.
-- @source     own: from 10% on, times in the trace differ clearly from real ones; from 100% on, half of them are the profiler's
-- @needs      run, setting, trace
SELECT
    run.overhead_pct AS value,
    NULL::BIGINT AS cost_ns,
    format(
        'The profiler made this run {:.0f}% slower: the same work takes {:,.1f} ms with it and {:,.1f} ms without.',
        run.overhead_pct, profiled_ns / 1e6, unprofiled_ns / 1e6
    ) AS finding,
    -- Other profilers than PyTorch's have no such options.
    CASE
        WHEN NOT EXISTS (FROM trace WHERE dialect = 'pytorch') THEN NULL
        WHEN setting.stacks AND setting.shapes THEN 'Record without stacks and shapes (--no-shapes).'
        WHEN setting.stacks THEN 'Record without stacks.'
        WHEN setting.shapes THEN 'Record without shapes (--no-shapes).'
    END AS advice
FROM run
CROSS JOIN setting
