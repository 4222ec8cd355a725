-- One row per rank and thing that its host did while the GPU waited for it.
--
-- Of gaps with the causes host and sync: own time of the innermost operator, annotation, Python
-- frame or runtime call of the launching thread. Adds up to the gaps of these causes; idle.gap has
-- a single one. A gap counts whole, also what followed the next kernel's launch (idle.gaps:
-- launched_ns).
-- @param  limit      INTEGER = 30    Rows to return.
-- @param  rank       BIGINT  = NULL  This rank only; all where NULL.
-- @column rank       BIGINT   Rank.
-- @column cause      VARCHAR  host or sync.
-- @column doing      VARCHAR  What it was; "(no event recorded)" where the thread was in none.
-- @column cat        VARCHAR  Its category: cpu_op, user_annotation, python_function, cuda_runtime ...
-- @column idle_ns    BIGINT   Time of gaps in which it was that, ns.
-- @column share_pct  DOUBLE   Percent of the rank's idle time of all causes.
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
