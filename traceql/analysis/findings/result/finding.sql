-- One row per finding: something that costs much; no rows if nothing reaches its threshold.
--
-- Severe findings come first, and of equal severity the one whose end would make the run the most
-- shorter. Each kind of finding is a file in traceql/findings; its thresholds are in finding_rule.
-- @schema main
-- @scope  run
-- @column rank_order  BIGINT               Position of the finding, from 1.
-- @column severity    VARCHAR              severe or notable.
-- @column kind        VARCHAR              Kind of finding (finding_rule.finding).
-- @column finding     VARCHAR              The finding in words, with its numbers.
-- @column value       DOUBLE               Number that was compared with the thresholds.
-- @column unit        VARCHAR              Unit of value.
-- @column cost_ns     BIGINT               Time that it costs all ranks together, ns; NULL if unknown.
-- @column saving_ns   BIGINT               Estimate of how much shorter the run would be without it, ns; NULL if there is none.
-- @column saving_pct  DOUBLE               saving_ns in percent of the run (the mean GPU span of the ranks).
-- @column assumption  VARCHAR              What the estimate assumes; NULL without one.
-- @column query       VARCHAR              Query that shows the details.
-- @column parameters  MAP(VARCHAR, VARCHAR)  Parameters of that query, by name.
-- @column advice      VARCHAR              What to try.
-- @column rank        BIGINT               Rank of an example: where the trace shows it best; NULL if the finding has no place.
-- @column ts          BIGINT               Start of the example, ns since the run's first event; NULL if it has no place.
-- @column dur         BIGINT               Duration of the example, ns; NULL if it has no place.
SELECT
    ROW_NUMBER() OVER in_order AS rank_order,
    CASE WHEN measured.value >= finding_rule.severe AND measured.is_uncertain IS NOT TRUE THEN 'severe' ELSE 'notable' END
        AS severity,
    measured.kind,
    concat(
        measured.finding,
        CASE WHEN measured.kind <> 'broken ledger' AND lost_records.pct >= 1 THEN format(
            ' The records of {:.0f}% of the launches are missing: the numbers are of what was recorded.', lost_records.pct
        ) END
    ) AS finding,
    CAST(measured.value AS DOUBLE) AS value,
    finding_rule.unit,
    CAST(measured.cost_ns AS BIGINT) AS cost_ns,
    CAST(measured.saving_ns AS BIGINT) AS saving_ns,
    100.0 * measured.saving_ns / run_window.ns AS saving_pct,
    measured.assumption, finding_rule.query,
    map_from_entries(list_filter(map_entries(measured.parameters), lambda entry: entry['value'] IS NOT NULL))
        AS parameters,
    concat_ws(' ', measured.advice, finding_rule.advice) AS advice,
    CASE WHEN measured.ts IS NOT NULL THEN CAST(COALESCE(measured.at_rank, measured.rank) AS BIGINT) END AS rank,
    CAST(measured.ts AS BIGINT) AS ts,
    CAST(measured.dur AS BIGINT) AS dur
FROM measured
INNER JOIN finding_rule ON measured.kind = finding_rule.finding
CROSS JOIN run_window
CROSS JOIN lost_records
WHERE measured.value >= finding_rule.notable
WINDOW in_order AS (
    ORDER BY
        measured.kind <> 'broken ledger' OR measured.is_uncertain IS TRUE,
        measured.value >= finding_rule.severe AND measured.is_uncertain IS NOT TRUE DESC,
        COALESCE(measured.saving_ns, measured.cost_ns / run_window.ranks) DESC NULLS LAST,
        measured.kind,
        measured.finding
)
ORDER BY rank_order
