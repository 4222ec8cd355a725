-- One row per number that sums up the run, across all ranks.
--
-- Use it as the shortest summary of a run. Shares are relative to the GPU spans of all ranks
-- together. Rows about phases and tokens are missing if the trace does not tell them.
-- @column headline  VARCHAR  What the number is.
-- @column value     DOUBLE   The number.
-- @column unit      VARCHAR  ns, percent, tokens/s or checks.
-- @column note      VARCHAR  What the number refers to, or how it was measured.
-- @empty  the database has neither GPU activity nor checks in its ledger
-- @chart  none
WITH rank_state AS (
    SELECT
        rank,
        SUM(dur) AS window_ns,
        SUM(dur) FILTER (compute) AS computing_ns,
        SUM(dur) FILTER (comm AND NOT compute) AS exposed_comm_ns,
        SUM(dur) FILTER (NOT (compute OR comm OR copy)) AS idle_ns
    FROM device_state
    GROUP BY rank
),
state AS (
    SELECT
        SUM(window_ns) AS window_ns,
        MAX(window_ns) AS longest_ns,
        COALESCE(SUM(computing_ns), 0) AS computing_ns,
        COALESCE(SUM(exposed_comm_ns), 0) AS exposed_comm_ns,
        COALESCE(SUM(idle_ns), 0) AS idle_ns,
        COUNT(*) AS ranks
    FROM rank_state
),
phase AS (
    SELECT
        phase,
        quantile_cont(gpu_dur, 0.5) AS median_ns,
        COUNT(*) FILTER (rank = (SELECT MIN(rank) FROM step)) AS steps
    FROM step
    WHERE phase IN ('prefill', 'decode', 'mixed') AND gpu_dur IS NOT NULL
    GROUP BY phase
),
first_rank AS (
    SELECT
        SUM(generation_tokens) AS tokens,
        MAX(gpu_ts + gpu_dur) - MIN(gpu_ts) AS span_ns
    FROM step
    WHERE rank = (SELECT MIN(rank) FROM step)
),
proof AS (
    SELECT COUNT(*) FILTER (ok) AS held, COUNT(ok) AS checks FROM ledger
),
headline AS (
    SELECT 1 AS place, 'recorded' AS headline, longest_ns AS value, 'ns' AS unit,
        'longest GPU span of ' || ranks || CASE ranks WHEN 1 THEN ' rank' ELSE ' ranks' END AS note
    FROM state
    WHERE ranks > 0
    UNION ALL
    SELECT 2, 'computing', 100.0 * computing_ns / window_ns, 'percent', 'a compute kernel ran; percent of all GPU spans'
    FROM state
    WHERE window_ns > 0
    UNION ALL
    SELECT 3, 'exposed comm', 100.0 * exposed_comm_ns / window_ns, 'percent',
        'a collective ran, but no compute kernel'
    FROM state
    WHERE window_ns > 0
    UNION ALL
    SELECT 4, 'idle', 100.0 * idle_ns / window_ns, 'percent', 'nothing ran on the GPU'
    FROM state
    WHERE window_ns > 0
    UNION ALL
    SELECT 4 + row_number() OVER (ORDER BY steps DESC, phase), phase || ' step', median_ns, 'ns',
        'median duration on the GPU, of ' || steps || CASE steps WHEN 1 THEN ' step' ELSE ' steps' END
    FROM phase
    UNION ALL
    SELECT 8, 'output', 1e9 * tokens / span_ns, 'tokens/s', tokens || ' tokens generated'
    FROM first_rank
    WHERE tokens > 0 AND span_ns > 0
    UNION ALL
    SELECT 9, 'ledger', held, 'checks', 'of ' || checks || ' hold'
    FROM proof
    WHERE checks > 0
)
SELECT headline, CAST(value AS DOUBLE) AS value, unit, note
FROM headline
ORDER BY place
