-- One row per run: how much of it the GPUs were busy.
--
-- Idle time and waiting for other ranks are not busy. Its causes are in the findings 'GPU idle',
-- 'host-bound steps' and 'late rank'. Under the profiler the host is slower than without it.
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
        SUM(dur) AS ns,
        COALESCE(SUM(dur) FILTER (part = 'idle'), 0) AS idle_ns,
        COALESCE(SUM(dur) FILTER (part = 'exposed_wait'), 0) AS wait_ns
    FROM device_timeline
),
counted AS (
    SELECT
        100.0 * idle_ns / NULLIF(ns, 0) AS idle_pct,
        100.0 * wait_ns / NULLIF(ns, 0) AS wait_pct,
        (SELECT MAX(overhead_pct) FROM run) AS overhead_pct
    FROM spent
),
judged AS (
    SELECT
        *,
        CASE
            WHEN idle_pct IS NULL THEN 'unknown'
            WHEN idle_pct + wait_pct > 20 THEN 'look'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'GPU busy share' AS item,
    state,
    CASE
        WHEN idle_pct IS NULL THEN 'no GPU activity was recorded'
        ELSE concat(
            format('busy {:.0f}% of the time, idle {:.0f}%, waiting {:.0f}%', 100 - idle_pct - wait_pct, idle_pct, wait_pct),
            '; the profiler made it ' || format('{:.0f}% slower', overhead_pct)
        )
    END AS evidence,
    CASE
        WHEN state = 'look' THEN 'See the findings of traceql info, which follow the lost time to its cause.'
    END AS advice,
    'time.lost' AS query
FROM judged
