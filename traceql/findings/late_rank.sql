-- One rank is the late rank of most collectives of its communicator.
--
-- value is the time that each other rank waited for it, as a share of the run. The two further
-- thresholds tell a single late rank from uneven waiting.
-- @title      late rank
-- @notable    5
-- @severe     15
-- @unit       % of the run
-- @threshold  share = 0.6  Share of the wait time in its communicator that must be for this rank.
-- @threshold  equal_shares = 1.4  How many times larger than an equal share (1 / number of ranks) it must be.
-- @evidence   comm.stragglers rank=rank
-- @advice     Look at what the host of this rank does in the gaps before these operations (idle.host).
-- @advice     Pin its process to its own cores, or record again: a host that is slow once is noise.
-- @source     own: from 5% of the run, wait time is worth a look
-- @needs      run_window, waiting
SELECT
    100.0 * waiting.each_ns / run_window.ns AS value,
    waiting.ns AS cost_ns,
    format(
        'Rank {} is late: {} {} waited {} ms in collectives. {:.0f}% of the wait was for rank {}, {} {:.0f}% of that wait. The transfers took {:.1f} ms per rank.',
        waiting.rank, CASE waiting.ranks WHEN 2 THEN 'rank' ELSE 'ranks' END,
        waiting.other_ranks, waiting.other_ms, 100 * waiting.share, waiting.rank,
        CASE waiting.cause
            WHEN 'host' THEN 'whose host launched late, which explains'
            WHEN 'kernel' THEN 'whose kernels took longer, which explains'
            WHEN 'preemption' THEN 'which kernels of another stream held up; this explains'
            WHEN 'copy' THEN 'which was copying memory; this explains'
            WHEN 'launch' THEN 'whose launched kernels started late, which explains'
            ELSE 'and the trace does not show the reason for'
        END,
        waiting.cause_pct, waiting.transfer_ns / 1e6
    ) AS finding,
    waiting.rank
FROM waiting
CROSS JOIN run_window
WHERE waiting.is_alone
