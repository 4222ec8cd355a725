-- One row per rank and cause of idle time.
--
-- Gaps of all causes add up to the rank's idle time, exactly. sync: nothing was queued and the
-- launching thread was blocked in a synchronising call. host: the next kernel's launch call began
-- after the gap. dependency: launched, but behind a wait for another stream. launch: launched, not
-- yet started. unknown: the next kernel's launch is not in the trace.
-- @param  rank       BIGINT  = NULL  This rank only; all where NULL.
-- @column rank       BIGINT   Rank.
-- @column cause      VARCHAR  sync, host, dependency, launch or unknown.
-- @column gaps       BIGINT   How many.
-- @column idle_ns    BIGINT   Summed duration, ns.
-- @column share_pct  DOUBLE   Percent of the rank's idle time.
-- @column p50_ns     DOUBLE   Median duration, ns.
-- @column max_ns     BIGINT   Longest, ns.
-- @chart  stacked x=idle_ns y=rank color=cause
SELECT
    rank,
    cause,
    COUNT(*) AS gaps,
    CAST(SUM(dur) AS BIGINT) AS idle_ns,
    100.0 * SUM(dur) / SUM(SUM(dur)) OVER (PARTITION BY rank) AS share_pct,
    quantile_cont(dur, 0.5) AS p50_ns,
    MAX(dur) AS max_ns
FROM gap
WHERE $rank::BIGINT IS NULL OR rank = $rank::BIGINT
GROUP BY rank, cause
ORDER BY rank, idle_ns DESC, cause
