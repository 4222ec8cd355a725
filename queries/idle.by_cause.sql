-- One row per rank and cause of idle time, with what the host did most of that time.
--
-- Use it to find out why a GPU was idle. The gaps of all causes add up exactly to the idle time of
-- the rank. idle.host lists everything that the host did meanwhile.
--
-- - host: the launch call of the next kernel began after the gap had begun
-- - sync: like host, but the host was blocked in a synchronizing call for at least half of that time
-- - dependency: the next kernel was launched but waited for another stream
-- - launch: the next kernel was launched and had not started yet
-- - unknown: the launch call of the next kernel is not in the trace
-- @param  rank       BIGINT  = NULL  Only this rank; all ranks by default.
-- @column rank       BIGINT   Rank.
-- @column cause      VARCHAR  sync, host, dependency, launch or unknown.
-- @column gaps       BIGINT   Number of gaps.
-- @column idle_ns    BIGINT   Total duration of the gaps, ns.
-- @column share_pct  DOUBLE   Percent of the rank's idle time.
-- @column p50_ns     DOUBLE   Median duration of a gap, ns.
-- @column max_ns     BIGINT   Longest gap, ns.
-- @column doing      VARCHAR  Innermost event in which the launching thread spent the most time; only for host and sync.
-- @column doing_pct  DOUBLE   Time in doing, percent of idle_ns.
-- @empty  the trace has no GPU activity, or its GPUs were never idle
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
