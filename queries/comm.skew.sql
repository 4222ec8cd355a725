-- One row per rank: how often the others waited for it, for how long, and why it was late.
--
-- Use it to find the late rank (the straggler) among the ranks. The cause is what the late rank's
-- GPU spent more time on than the other ranks' GPUs, since the previous operation of the
-- communicator:
--
-- - host: idle because the host had launched nothing
-- - kernel: compute kernels
-- - preemption: compute kernels, at least half of the excess on other streams
-- - copy: copies
-- - communication: operations of other communicators
-- - launch: idle for other reasons
-- @column rank            BIGINT   Rank.
-- @column operations      BIGINT   Operations of the rank that were matched on all ranks.
-- @column last            BIGINT   Operations for which the rank was the late rank.
-- @column last_pct        DOUBLE   last in percent of operations.
-- @column late_p50_ns     DOUBLE   Median delay after the earliest rank, in operations for which it was the late rank, ns.
-- @column late_max_ns     BIGINT   Longest delay after the earliest rank, in operations for which it was the late rank, ns.
-- @column cost_ns         BIGINT   Time that all other ranks together waited for it, ns.
-- @column wait_ns         BIGINT   Time that it waited for other ranks, ns.
-- @column transfer_ns     BIGINT   Transfer time of its own operations, ns.
-- @column cause           VARCHAR  Cause of its delays that cost the most wait time.
-- @column cause_pct       DOUBLE   Percent of cost_ns with that cause.
-- @key    rank wait_ns transfer_ns cost_ns cause cause_pct last_pct
-- @empty  no operation was matched on two ranks; load all ranks of the run
-- @chart  stacked x=transfer_ns,wait_ns y=rank
-- @title  Wait time and transfer time of each rank
WITH attended AS (
    SELECT
        rank,
        COUNT(*) AS operations,
        CAST(SUM(wait_ns) AS BIGINT) AS wait_ns,
        CAST(SUM(transfer_ns) AS BIGINT) AS transfer_ns
    FROM collective
    WHERE wait_ns IS NOT NULL
    GROUP BY rank
),
late AS (
    SELECT
        rank,
        COUNT(*) AS last,
        quantile_cont(late_ns, 0.5) AS late_p50_ns,
        MAX(late_ns) AS late_max_ns,
        CAST(SUM(wait_ns) AS BIGINT) AS cost_ns
    FROM straggler
    GROUP BY rank
),
cause AS (
    SELECT rank, cause, SUM(wait_ns) AS cost_ns FROM straggler GROUP BY rank, cause
),
main_cause AS (
    SELECT rank, arg_max(cause, cost_ns) AS cause, MAX(cost_ns) AS cost_ns FROM cause GROUP BY rank
)
SELECT
    attended.rank, attended.operations,
    COALESCE(late.last, 0) AS last,
    100.0 * COALESCE(late.last, 0) / attended.operations AS last_pct,
    late.late_p50_ns, late.late_max_ns,
    COALESCE(late.cost_ns, 0) AS cost_ns,
    attended.wait_ns, attended.transfer_ns, main_cause.cause,
    100.0 * main_cause.cost_ns / NULLIF(late.cost_ns, 0) AS cause_pct
FROM attended
LEFT JOIN late USING (rank)
LEFT JOIN main_cause USING (rank)
ORDER BY attended.rank
