-- One rank is the late rank of most collectives of its communicator, and its host is not the reason.
--
-- value is the time that each other rank waited for it, as a share of the run. The two further
-- thresholds distinguish a single late rank from uneven waiting. A host that launches late is reported as
-- host-bound steps.
-- @title      late rank
-- @notable    5
-- @severe     15
-- @unit       % of the run
-- @threshold  share = 0.6  Share of the wait time in its communicator that must be for this rank.
-- @threshold  equal_shares = 1.4  How many times larger than an equal share (1 / number of ranks) it must be.
-- @evidence   comm.stragglers rank=rank
-- @advice     Compare the kernels of this rank with those of the others (layers.roles --rank), and its
-- @advice     clocks and its share of the work.
-- @source     own: from 5% of the run, wait time is worth a look
-- @needs      run_window, slower_role, waiting
SELECT
    100.0 * waiting.each_ns / run_window.ns AS value,
    waiting.ns AS cost_ns,
    waiting.each_ns AS saving_ns,
    'if this rank were as fast as the others' AS assumption,
    format(
        'Rank {} is late: {} waited {} ms in collectives. {:.0f}% of the wait was for rank {}, {} {:.0f}% of that wait{}{}.',
        waiting.rank,
        CASE WHEN waiting.group_size > 9 THEN 'the other ranks'
            ELSE CASE waiting.group_size WHEN 2 THEN 'rank ' ELSE 'ranks ' END || waiting.other_ranks END,
        CASE WHEN waiting.group_size > 9 THEN format('{:.1f}', waiting.each_ns / 1e6) ELSE waiting.other_ms END,
        100 * waiting.share, waiting.rank,
        CASE waiting.cause
            WHEN 'kernel' THEN 'whose kernels took longer, which explains'
            WHEN 'preemption' THEN 'which kernels of another stream held up; this explains'
            WHEN 'copy' THEN 'which was copying memory; this explains'
            WHEN 'launch' THEN 'whose launched kernels started late, which explains'
            ELSE 'and the trace does not show the reason for'
        END,
        waiting.cause_pct,
        CASE WHEN waiting.cause = 'kernel' AND slower_role.role IS NOT NULL
            THEN format(', most in {} ({:.1f} ms more than the median rank)', slower_role.role, slower_role.excess_ns / 1e6)
        ELSE '' END,
        waiting.phase_text
    ) AS finding,
    waiting.rank, waiting.ts, waiting.dur, waiting.at_rank
FROM waiting
CROSS JOIN run_window
LEFT JOIN slower_role USING (rank)
WHERE waiting.is_alone
