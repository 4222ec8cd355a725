-- One row per finding: something that costs much, severe ones first; none if nothing reaches its threshold.
--
-- Start here, or with traceql info, which prints the sentences in full. Each finding says what happens
-- and why, with its numbers, how much shorter the run could be, the query that shows it, and what to
-- try. Findings of equal severity are in the order of that saving. The thresholds are in table
-- finding_rule. Percentages of the run are of the mean GPU span of the ranks.
-- @column rank_order  BIGINT                Position of the finding, from 1.
-- @column severity    VARCHAR               severe or notable.
-- @column kind        VARCHAR               Kind of finding; as in finding_rule.
-- @column finding     VARCHAR               The finding in words, with its numbers.
-- @column saving_ns   BIGINT                Estimate of how much shorter the run would be without it, ns; NULL if there is none.
-- @column saving_pct  DOUBLE                saving_ns in percent of the run.
-- @column assumption  VARCHAR               What that estimate assumes.
-- @column advice      VARCHAR               What to try.
-- @column query       VARCHAR               The query that shows it: traceql run QUERY DB.
-- @column parameters  MAP(VARCHAR, VARCHAR)  Parameters of that query.
-- @column value       DOUBLE                The number that was compared with the thresholds.
-- @column unit        VARCHAR               Its unit.
-- @column cost_ns     BIGINT                Time that it costs all ranks together, if that is known, ns.
-- @column rank        BIGINT                Rank of an example, where the trace shows it best.
-- @column ts          BIGINT                Start of the example, ns since the run's first event.
-- @column dur         BIGINT                Duration of the example, ns.
-- @key    severity finding advice saving_ns saving_pct assumption query parameters kind unit value
-- @chart  none
-- @empty  no number reaches its threshold (table reference.finding_rule), or there is no trace: profiles of Nsight Compute alone have no findings
SELECT
    rank_order, severity, kind, finding, saving_ns, saving_pct, assumption, advice, query,
    parameters, value, unit, cost_ns, rank, ts, dur
FROM finding
ORDER BY rank_order
