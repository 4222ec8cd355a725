-- One rank arrives last in most collectives of its communicator.
--
-- value is the wait time that each other rank lost to it, as a share of the run. A single late rank
-- is told apart from uneven waiting by the two further thresholds.
-- @title      late rank
-- @notable    5
-- @severe     15
-- @unit       % of the run
-- @threshold  share = 0.6  Part of the wait of its communicator that must be for this rank.
-- @threshold  equal_shares = 1.4  How many times its equal share that must be.
-- @evidence   comm.stragglers rank=rank
-- @advice     Look at what its host does in the gaps before these operations (idle.host). Pin its
-- @advice     process to its own cores, or record again: a host that is slow once is noise.
-- @source     own: wait time that is worth naming
-- @needs      run_window, waiting
SELECT
    100.0 * waiting.each_ns / run_window.ns AS value,
    waiting.ns AS cost_ns,
    format(
        'Rank {} is late: {} {} waited {} ms in collectives. {:.0f}% of the wait was for rank {}, {} ({:.0f}% of it). The transfers took {:.1f} ms per rank.',
        waiting.rank, CASE waiting.ranks WHEN 2 THEN 'rank' ELSE 'ranks' END,
        waiting.other_ranks, waiting.other_ms, 100 * waiting.share, waiting.rank,
        CASE waiting.cause
            WHEN 'host' THEN 'whose host launched late'
            WHEN 'kernel' THEN 'whose kernels took longer'
            WHEN 'preemption' THEN 'which kernels of another stream held up'
            WHEN 'copy' THEN 'which was copying memory'
            WHEN 'launch' THEN 'whose launched kernels started late'
            ELSE 'for a reason that the trace does not show'
        END,
        waiting.cause_pct, waiting.transfer_ns / 1e6
    ) AS finding,
    waiting.rank
FROM waiting
CROSS JOIN run_window
WHERE waiting.is_alone
