-- The ranks wait for each other, but not mostly for a single late rank, and not for a host.
-- @title      uneven waiting
-- @notable    5
-- @severe     15
-- @unit       % of the run
-- @evidence   comm.skew
-- @advice     Look at comm.stragglers for what makes a different rank late each time.
-- @source     own: the same as for a late rank
-- @needs      run_window, waiting
SELECT
    100.0 * waiting.all_ns / waiting.group_size / run_window.ns AS value,
    waiting.all_ns AS cost_ns,
    waiting.all_ns / waiting.group_size AS saving_ns,
    'if all ranks began their operations at the same time' AS assumption,
    format(
        'Ranks {}waited {} ms for each other in collectives, although no host was late. No single rank held up the others{}.',
        CASE WHEN waiting.group_size > 9 THEN '' ELSE waiting.all_ranks || ' ' END,
        CASE WHEN waiting.group_size > 9 THEN format('{:.1f}', waiting.all_ns / waiting.group_size / 1e6)
            ELSE waiting.all_ms END,
        waiting.phase_text
    ) AS finding,
    waiting.at_rank AS rank,
    waiting.ts, waiting.dur
FROM waiting
CROSS JOIN run_window
WHERE NOT waiting.is_alone
