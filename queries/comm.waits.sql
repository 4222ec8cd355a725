-- One row per pair of ranks: which rank waited for which, how often, how long, and why.
--
-- Use it to see whether one rank holds up all others. In each operation that was matched on all its
-- ranks, the other ranks wait for the late rank.
-- @column rank         BIGINT   Rank that waited.
-- @column late_rank    BIGINT   Rank that it waited for.
-- @column operations   BIGINT   Operations in which it waited for the late rank.
-- @column wait_ns      BIGINT   Its wait time in them, ns.
-- @column share_pct    DOUBLE   Percent of the wait time of all ranks.
-- @column cause        VARCHAR  Cause of the late rank's delay that cost the most wait time (see straggler.cause).
-- @column cause_pct    DOUBLE   Percent of wait_ns with that cause.
-- @key    rank late_rank wait_ns cause share_pct cause_pct operations
-- @empty  no operation was matched on two ranks, or there was no wait time; load all ranks of the run
-- @chart  bar x=wait_ns y=rank color=late_rank
-- @title  Waiting between ranks
WITH waited AS (
    SELECT
        collective.rank,
        straggler.rank AS late_rank,
        straggler.cause,
        COUNT(*) AS operations,
        SUM(collective.wait_ns) AS ns
    FROM collective
    INNER JOIN straggler USING (match_id)
    WHERE collective.rank <> straggler.rank AND collective.wait_ns > 0
    GROUP BY collective.rank, straggler.rank, straggler.cause
)
SELECT
    rank, late_rank,
    CAST(SUM(operations) AS BIGINT) AS operations,
    CAST(SUM(ns) AS BIGINT) AS wait_ns,
    100.0 * SUM(ns) / SUM(SUM(ns)) OVER () AS share_pct,
    arg_max(cause, ns) AS cause,
    100.0 * MAX(ns) / SUM(ns) AS cause_pct
FROM waited
GROUP BY rank, late_rank
ORDER BY wait_ns DESC, rank, late_rank
