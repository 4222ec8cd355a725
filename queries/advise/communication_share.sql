-- One row per run: how much of it communication took that no compute hid.
--
-- The threshold is that of the finding 'communication' (table reference.finding_rule), which has the details.
-- @column item      VARCHAR  What is checked.
-- @column state     VARCHAR  ok, look (may cost time) or unknown (not in the recording).
-- @column evidence  VARCHAR  The numbers; of what is unknown, why.
-- @column advice    VARCHAR  What to try; NULL unless the state is look.
-- @column query     VARCHAR  The query that shows more; NULL if there is none.
-- @key    item state evidence advice query
-- @empty  it always has one row
-- @chart  none
WITH spent AS (
    SELECT
        CAST(SUM(dur) AS DOUBLE) AS ns,
        SUM(dur) FILTER (part = 'exposed_transfer') AS transfer_ns,
        COALESCE(SUM(dur) FILTER (part = 'exposed_unmatched'), 0) AS unmatched_ns
    FROM device_timeline
),
counted AS (
    SELECT
        ns,
        100.0 * COALESCE(transfer_ns, 0) / NULLIF(ns, 0) AS share_pct,
        100.0 * unmatched_ns / NULLIF(ns, 0) AS unmatched_pct,
        (SELECT notable FROM finding_rule WHERE finding = 'communication') AS notable
    FROM spent
),
judged AS (
    SELECT
        *,
        CASE
            WHEN share_pct IS NULL THEN 'unknown'
            WHEN share_pct >= notable THEN 'look'
            WHEN share_pct + unmatched_pct >= notable THEN 'unknown'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'communication share' AS item,
    state,
    CASE
        WHEN share_pct IS NULL THEN 'no GPU activity was recorded'
        WHEN state = 'unknown'
            THEN format('operations that were not matched take {:.0f}% of the time, waiting included; load all ranks', unmatched_pct)
        ELSE concat(
            format('exposed transfers take {:.1f}% of the time', share_pct),
            CASE WHEN unmatched_pct > 0 THEN format(' and operations that were not matched {:.1f}%', unmatched_pct) END,
            format('; {:.0f}% would be notable', notable)
        )
    END AS evidence,
    CASE
        WHEN state = 'look' THEN 'See the finding ''communication'' of traceql info.'
    END AS advice,
    'comm.exposed' AS query
FROM judged
