-- The ranks wait for each other, but not mostly for a single late rank.
-- @title      uneven waiting
-- @notable    5
-- @severe     15
-- @unit       % of the run
-- @evidence   comm.skew
-- @advice     Look at comm.stragglers for what makes a different rank late each time.
-- @source     own: the same as for a late rank
-- @needs      run_window, waiting
SELECT
    100.0 * waiting.all_ns / waiting.ranks / run_window.ns AS value,
    waiting.all_ns AS cost_ns,
    format(
        'Ranks {} waited {} ms for each other in collectives; no single rank was late. The transfers took {:.1f} ms per rank.',
        waiting.all_ranks, waiting.all_ms, waiting.transfer_ns / 1e6
    ) AS finding
FROM waiting
CROSS JOIN run_window
WHERE NOT waiting.is_alone
