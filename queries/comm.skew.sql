-- One row per rank: how often the others waited for it, for how long, and why it came last.
--
-- Why: what its GPU did more of than the others' since the operation of the group before. host: its
-- host had issued nothing. kernel: computing took longer. preemption: kernels of other streams
-- account for half of that. copy, communication of other groups, launch: gaps of other causes.
-- @column rank            BIGINT   Rank.
-- @column operations      BIGINT   Operations that it took part in and that all ranks were found of.
-- @column last            BIGINT   Of these, it came last.
-- @column last_pct        DOUBLE   last in percent of operations.
-- @column late_p50_ns     DOUBLE   By how much it was behind the first rank then, median, ns.
-- @column late_max_ns     BIGINT   The most, ns.
-- @column cost_ns         BIGINT   What all others waited for it, together, ns.
-- @column wait_ns         BIGINT   What it waited for others, ns.
-- @column transfer_ns     BIGINT   What its own operations moved bytes for, ns.
-- @column cause           VARCHAR  Why it was late, where it cost most.
-- @column cause_pct       DOUBLE   Percent of cost_ns with that cause.
-- @empty  no operation was found on two ranks: load all ranks of the run
-- @chart  stacked x=wait_ns,transfer_ns y=rank
-- @title  Waiting for other ranks against moving bytes, by rank
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
        CAST(SUM(waited_ns) AS BIGINT) AS cost_ns
    FROM straggler
    GROUP BY rank
),
cause AS (
    SELECT rank, cause, SUM(waited_ns) AS cost_ns FROM straggler GROUP BY rank, cause
),
main_cause AS (
    SELECT rank, arg_max(cause, cost_ns) AS cause, MAX(cost_ns) AS cost_ns FROM cause GROUP BY rank
)
SELECT
    attended.rank,
    attended.operations,
    COALESCE(late.last, 0) AS last,
    100.0 * COALESCE(late.last, 0) / attended.operations AS last_pct,
    late.late_p50_ns,
    late.late_max_ns,
    COALESCE(late.cost_ns, 0) AS cost_ns,
    attended.wait_ns,
    attended.transfer_ns,
    main_cause.cause,
    100.0 * main_cause.cost_ns / NULLIF(late.cost_ns, 0) AS cause_pct
FROM attended
LEFT JOIN late USING (rank)
LEFT JOIN main_cause USING (rank)
ORDER BY attended.rank
