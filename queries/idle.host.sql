-- One row per rank, cause and event name: what the host did while the GPU waited for it.
--
-- Use it to see which host work keeps the GPU idle. It covers the gaps with the causes host and
-- sync, and counts the self time of each operator, annotation, Python frame and runtime call on the
-- launching thread. The times add up to these gaps. A gap counts as a whole, including the
-- part after the launch call of the next kernel (see launched_ns in idle.gaps). idle.gap shows a
-- single gap.
-- @param  limit      INTEGER = 30    Maximum number of rows.
-- @param  rank       BIGINT  = NULL  Only this rank; all ranks by default.
-- @column rank       BIGINT   Rank.
-- @column cause      VARCHAR  host or sync.
-- @column doing      VARCHAR  What the host did; "(no event recorded)" if the thread was in no event.
-- @column cat        VARCHAR  Event category: cpu_op, user_annotation, python_function, cuda_runtime ...
-- @column idle_ns    BIGINT   Self time of these events in the gaps, ns.
-- @column share_pct  DOUBLE   Percent of the rank's idle time, of all causes.
-- @empty  no gap has the cause host or sync: the GPU never waited for its host
-- @chart  bar x=idle_ns y=doing color=cause
-- @title  What the host did while the GPU waited for it
WITH idle AS (
    SELECT rank, SUM(dur) AS ns FROM gap GROUP BY rank
)
SELECT
    host_gap.rank,
    host_gap.cause,
    host_gap.name AS doing,
    host_gap.cat,
    host_gap.ns AS idle_ns,
    100.0 * host_gap.ns / idle.ns AS share_pct
FROM host_gap
INNER JOIN idle USING (rank)
WHERE $rank::BIGINT IS NULL OR host_gap.rank = $rank::BIGINT
ORDER BY host_gap.ns DESC, host_gap.rank, host_gap.cause, host_gap.name
LIMIT $limit::INTEGER
