-- One row per finding: something that costs much, the costliest first; none if nothing reaches its threshold.
--
-- Start here, or with traceql info, which prints the sentences in full. Each finding is one sentence
-- with a number, the query that shows it, and what to try.
-- The thresholds are in table finding_rule. Percentages of the run are of the mean GPU span of the
-- ranks.
-- @column rank_order  BIGINT                Position of the finding, from 1: the costliest first.
-- @column severity    VARCHAR               severe or notable.
-- @column kind        VARCHAR               Kind of finding; as in finding_rule.
-- @column finding     VARCHAR               One sentence, with its number.
-- @column value       DOUBLE                The number that was compared with the thresholds.
-- @column unit        VARCHAR               Its unit.
-- @column cost_ns     BIGINT                Time that it costs all ranks together, if that is known, ns.
-- @column query       VARCHAR               The query that shows it: traceql run QUERY DB.
-- @column parameters  MAP(VARCHAR, VARCHAR)  Parameters of that query.
-- @column advice      VARCHAR               What to try.
-- @chart  none
-- @empty  no number reaches its threshold (table finding_rule)
SELECT
    rank_order,
    severity,
    kind,
    finding,
    value,
    unit,
    cost_ns,
    query,
    parameters,
    advice
FROM finding
ORDER BY rank_order
