-- One row per finding: something that costs much, the costliest first; no rows if nothing reaches its threshold.
--
-- Each kind of finding is a file in traceql/findings; its thresholds are in finding_rule.
-- @kind   view
-- @scope  run
-- @column rank_order  BIGINT               Rank of the finding by cost, from 1.
-- @column severity    VARCHAR              severe or notable.
-- @column kind        VARCHAR              Kind of finding (finding_rule.finding).
-- @column finding     VARCHAR              The finding in one sentence, with its numbers.
-- @column value       DOUBLE               Number that was compared with the thresholds.
-- @column unit        VARCHAR              Unit of value.
-- @column cost_ns     BIGINT               Time that it costs all ranks together, ns; NULL if unknown.
-- @column query       VARCHAR              Query that shows the details.
-- @column parameters  MAP(VARCHAR, VARCHAR)  Parameters of that query, by name.
-- @column advice      VARCHAR              What to try.
SELECT
    ROW_NUMBER() OVER in_order AS rank_order,
    CASE WHEN measured.value >= finding_rule.severe THEN 'severe' ELSE 'notable' END AS severity,
    measured.kind,
    measured.finding,
    CAST(measured.value AS DOUBLE) AS value,
    finding_rule.unit,
    CAST(measured.cost_ns AS BIGINT) AS cost_ns,
    finding_rule.query,
    map_from_entries(list_filter(map_entries(measured.parameters), lambda entry: entry['value'] IS NOT NULL))
        AS parameters,
    finding_rule.advice
FROM measured
INNER JOIN finding_rule ON measured.kind = finding_rule.finding
WHERE measured.value >= finding_rule.notable
WINDOW in_order AS (
    ORDER BY
        measured.kind <> 'broken ledger', measured.cost_ns IS NULL, measured.cost_ns DESC, measured.kind
)
ORDER BY rank_order
