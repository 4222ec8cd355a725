-- One row per rank and cause of idle time, with what the host did most in it.
--
-- Gaps of all causes add up to the rank's idle time, exactly. sync: nothing was queued and the
-- launching thread was blocked in a synchronising call. host: the next kernel's launch call began
-- after the gap. dependency: launched, but behind a wait for another stream. launch: launched, not
-- yet started. unknown: the next kernel's launch is not in the trace. idle.host lists all that the
-- host did.
-- @param  rank       BIGINT  = NULL  This rank only; all where NULL.
-- @column rank       BIGINT   Rank.
-- @column cause      VARCHAR  sync, host, dependency, launch or unknown.
-- @column gaps       BIGINT   How many.
-- @column idle_ns    BIGINT   Summed duration, ns.
-- @column share_pct  DOUBLE   Percent of the rank's idle time.
-- @column p50_ns     DOUBLE   Median duration, ns.
-- @column max_ns     BIGINT   Longest, ns.
-- @column doing      VARCHAR  What the launching thread did most: the innermost event; host and sync.
-- @column doing_pct  DOUBLE   Percent of idle_ns in which it did that.
-- @chart  stacked x=idle_ns y=rank color=cause
-- @title  Why each rank's GPU was idle
WITH doing AS (
    SELECT rank, cause, arg_max(name, ns) AS name, MAX(ns) AS ns
    FROM (SELECT rank, cause, name, SUM(ns) AS ns FROM host_gap GROUP BY rank, cause, name)
    GROUP BY rank, cause
),
summed AS (
    SELECT
        rank,
        cause,
        COUNT(*) AS gaps,
        CAST(SUM(dur) AS BIGINT) AS idle_ns,
        quantile_cont(dur, 0.5) AS p50_ns,
        MAX(dur) AS max_ns
    FROM gap
    WHERE $rank::BIGINT IS NULL OR rank = $rank::BIGINT
    GROUP BY rank, cause
)
SELECT
    summed.rank,
    summed.cause,
    summed.gaps,
    summed.idle_ns,
    100.0 * summed.idle_ns / SUM(summed.idle_ns) OVER (PARTITION BY summed.rank) AS share_pct,
    summed.p50_ns,
    summed.max_ns,
    doing.name AS doing,
    100.0 * doing.ns / summed.idle_ns AS doing_pct
FROM summed
LEFT JOIN doing USING (rank, cause)
ORDER BY summed.rank, summed.idle_ns DESC, summed.cause
