-- One row per run, the worst first: whether its checks hold, and how much of its GPU time is understood.
--
-- Use it before you trust a number of the fleet: a run with failed checks lacks events, or parts of it
-- were not recognized. quality.ledger has all checks of each run.
-- @param  limit              INTEGER = 50   Maximum number of rows.
-- @param  failed             BOOLEAN = FALSE  Only runs with a check that fails, or that could not be loaded.
-- @column run                VARCHAR  Name of the run in the lake.
-- @column status             VARCHAR  ok, or failed: it could not be loaded.
-- @column checks             BIGINT   Checks that can hold or fail.
-- @column failed_checks      BIGINT   Checks that fail.
-- @column first_failed       VARCHAR  One of them.
-- @column unclassified_pct   DOUBLE   GPU time of kernels that no rule classifies, percent.
-- @column unattributed_pct   DOUBLE   GPU time without a layer or role, percent of the time in steps that ran a model.
-- @column unmatched_pct      DOUBLE   GPU time in operations that were not matched, so that waiting is unknown, percent.
-- @column ranks              BIGINT   Ranks that are loaded.
-- @column world_size         BIGINT   Ranks of the run.
-- @column error              VARCHAR  Why it could not be loaded; NULL if it could.
-- @key    run status checks failed_checks first_failed unclassified_pct unattributed_pct unmatched_pct ranks world_size error
-- @empty  all checks of all runs hold, or the lake has no run
-- @chart  bar x=unclassified_pct,unattributed_pct,unmatched_pct y=run
-- @title  GPU time that is not understood, by run
WITH checked AS (
    SELECT
        run,
        COUNT(ok) AS checks,
        COUNT(*) FILTER (NOT ok) AS failed_checks,
        MIN(format('rank {}: {}', rank, check_name)) FILTER (NOT ok) AS first_failed,
        100.0 * SUM(value) FILTER (check_name = 'time classified other')
        / NULLIF(SUM(total) FILTER (check_name = 'time classified other'), 0) AS unclassified_pct,
        100.0 * SUM(value) FILTER (check_name = 'time without a layer or role')
        / NULLIF(SUM(total) FILTER (check_name = 'time without a layer or role'), 0) AS unattributed_pct
    FROM ledger
    GROUP BY run
),
waited AS (
    SELECT run, 100.0 * SUM(exposed_unmatched_ns) / NULLIF(SUM(window_ns), 0) AS unmatched_pct
    FROM rank_summary
    GROUP BY run
)
SELECT
    lake_run.run, lake_run.status, checked.checks, checked.failed_checks, checked.first_failed,
    checked.unclassified_pct, checked.unattributed_pct, waited.unmatched_pct, lake_run.ranks,
    lake_run.world_size, lake_run.error
FROM lake_run
LEFT JOIN checked USING (run)
LEFT JOIN waited USING (run)
WHERE NOT $failed::BOOLEAN OR lake_run.status <> 'ok' OR checked.failed_checks > 0
ORDER BY
    lake_run.status = 'ok',
    checked.failed_checks DESC NULLS LAST,
    checked.unattributed_pct DESC NULLS LAST,
    lake_run.run
LIMIT $limit::INTEGER
