-- One row per grain, stratum, rank, part, root rank and cause: mean idle time and waiting of a typical unit, by what is to blame.
-- @kind   result
-- @column grain      VARCHAR  kv or rows (member.grain).
-- @column stratum    VARCHAR  Name of the stratum.
-- @column rank       BIGINT   Rank that lost the time.
-- @column part       VARCHAR  idle or exposed_wait.
-- @column root_rank  BIGINT   Rank that the cause is on (lost_time.root_rank).
-- @column cause      VARCHAR  Cause (lost_time.cause).
-- @column ns         DOUBLE   Time of a unit, ns; the idle time right before its GPU spans counts.
SELECT
    member.grain, member.stratum, lost_time.rank, lost_time.part, lost_time.root_rank,
    lost_time.cause,
    SUM(lost_time.ns) / ANY_VALUE(stratum.typical) AS ns
FROM lost_time
INNER JOIN unit_step USING (step_id)
INNER JOIN member USING (unit_id)
INNER JOIN stratum ON member.grain = stratum.grain AND member.stratum = stratum.stratum
WHERE member.is_typical
GROUP BY member.grain, member.stratum, lost_time.rank, lost_time.part, lost_time.root_rank, lost_time.cause
ORDER BY ALL
