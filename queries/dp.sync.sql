-- One row per data-parallel rank: how long it waited for the other replicas.
--
-- Use it to see what synchronization between replicas costs, and which replica is late. It counts
-- the operations of communicators with ranks of several replicas. A replica without requests takes
-- part in them too, in steps without tokens or outside its steps.
-- @column rank          BIGINT   Rank.
-- @column dp_rank       BIGINT   Data-parallel replica of the rank.
-- @column steps         BIGINT   Recorded steps.
-- @column idle_steps    BIGINT   Steps without tokens.
-- @column tokens        BIGINT   Tokens processed: prompt tokens and generated tokens.
-- @column tokens_ratio  DOUBLE   Tokens divided by the mean of all ranks.
-- @column operations    BIGINT   Operations across replicas.
-- @column stray         BIGINT   Operations across replicas outside any step.
-- @column wait_ns       BIGINT   Time that matched operations waited for the late rank, ns.
-- @column transfer_ns   BIGINT   Transfer time of matched operations, ns.
-- @column last          BIGINT   Operations for which the rank was the late rank.
-- @column last_pct      DOUBLE   last in percent of the operations that were matched on all ranks.
-- @column cost_ns       BIGINT   Time that all other ranks together waited for it, ns.
-- @column layout_source VARCHAR  How the position of the rank in the layout is known.
-- @key    rank dp_rank wait_ns transfer_ns cost_ns last_pct tokens_ratio steps idle_steps
-- @empty  the run has one replica, or its data-parallel ranks were not recognized; see the table layout
-- @chart  stacked x=wait_ns,transfer_ns y=rank
-- @title  Waiting for other replicas, and transfer time
WITH counted AS (
    SELECT
        rank,
        COUNT(*) AS steps,
        COUNT(*) FILTER (context_tokens + generation_tokens = 0) AS idle_steps,
        CAST(SUM(context_tokens + generation_tokens) AS BIGINT) AS tokens
    FROM step
    GROUP BY rank
),
synchronised AS (
    SELECT
        collective.rank,
        COUNT(*) AS operations,
        COUNT(*) FILTER (kernel.step_id IS NULL) AS stray,
        COUNT(collective.wait_ns) AS matched,
        CAST(SUM(collective.wait_ns) AS BIGINT) AS wait_ns,
        CAST(SUM(collective.transfer_ns) AS BIGINT) AS transfer_ns,
        COUNT(*) FILTER (collective_arrival.is_last) AS last,
        CAST(SUM(collective_arrival.wait_ns) FILTER (collective_arrival.is_last) AS BIGINT) AS cost_ns
    FROM collective
    INNER JOIN communicator USING (communicator_id)
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    LEFT JOIN collective_arrival ON collective.kernel_id = collective_arrival.kernel_id
    WHERE communicator.scope = 'data'
    GROUP BY collective.rank
)
SELECT
    layout.rank, layout.dp_rank, counted.steps, counted.idle_steps, counted.tokens,
    counted.tokens / NULLIF(AVG(counted.tokens) OVER (), 0) AS tokens_ratio,
    COALESCE(synchronised.operations, 0) AS operations,
    COALESCE(synchronised.stray, 0) AS stray,
    synchronised.wait_ns, synchronised.transfer_ns,
    COALESCE(synchronised.last, 0) AS last,
    100.0 * synchronised.last / NULLIF(synchronised.matched, 0) AS last_pct,
    COALESCE(synchronised.cost_ns, 0) AS cost_ns,
    layout.source AS layout_source
FROM layout
LEFT JOIN counted USING (rank)
LEFT JOIN synchronised USING (rank)
WHERE layout.dp_size > 1
ORDER BY layout.rank
