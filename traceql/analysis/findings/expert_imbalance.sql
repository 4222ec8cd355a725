-- The experts of one rank compute for longer than those of the average rank.
-- @title      expert imbalance
-- @notable    25
-- @severe     50
-- @unit       % above the average rank
-- @evidence   ep.balance
-- @advice     Use expert load balancing with redundant experts, or place the experts differently.
-- @source     own: the other ranks wait for the slowest one
-- @needs      kernel, waiting
WITH expert AS (
    SELECT rank, SUM(dur) AS ns
    FROM kernel
    WHERE role IN ('experts_gate_up', 'experts_down')
    GROUP BY rank
),
balance AS (
    SELECT arg_max(rank, ns) AS rank, MAX(ns) AS most_ns, AVG(ns) AS mean_ns
    FROM expert
    HAVING COUNT(*) > 1
)
SELECT
    100.0 * (most_ns / mean_ns - 1) AS value,
    most_ns - mean_ns AS cost_ns,
    most_ns - mean_ns AS saving_ns,
    'if all ranks had equal expert work' AS assumption,
    format(
        'Rank {} computes its experts for {:.1f} ms, the average rank for {:.1f} ms.',
        rank, most_ns / 1e6, mean_ns / 1e6
    ) AS finding,
    rank
FROM balance
-- A late rank that computes for longer is reported as such.
WHERE rank NOT IN (SELECT rank FROM waiting WHERE is_alone AND cause = 'kernel')
