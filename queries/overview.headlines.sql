-- One row per number that sums up the run, across all ranks.
--
-- Use it as the shortest summary of a run. Shares are relative to the GPU spans of all ranks
-- together; they add up to 100%. Rows about waiting, phases and tokens are missing if the trace does
-- not have them, that of tokens per second also in an excerpt of several windows. Without a trace,
-- the numbers are those of the profiles of Nsight Compute.
-- @column headline  VARCHAR  What the number is.
-- @column value     DOUBLE   The number.
-- @column unit      VARCHAR  ns, percent, tokens/s, launches, GB/s, check or checks.
-- @column note      VARCHAR  What the number refers to, or how it was measured.
-- @key    headline value unit note
-- @empty  the database has neither GPU activity nor profiles nor checks in its ledger
-- @chart  none
WITH device_part AS (
    SELECT
        rank, device,
        SUM(dur) AS window_ns,
        SUM(dur) FILTER (part = 'computing') AS computing_ns,
        SUM(dur) FILTER (part = 'exposed_transfer') AS transfer_ns,
        SUM(dur) FILTER (part = 'exposed_wait') AS wait_ns,
        SUM(dur) FILTER (part = 'exposed_unmatched') AS unmatched_ns,
        SUM(dur) FILTER (part = 'exposed_copy') AS copy_ns,
        SUM(dur) FILTER (part = 'idle') AS idle_ns,
        -- Between the windows of an excerpt, nothing is known.
        MAX(ts + dur) - MIN(ts) = SUM(dur) AS is_connected
    FROM device_timeline
    GROUP BY rank, device
),
state AS (
    SELECT
        SUM(window_ns) AS window_ns,
        (SELECT MAX(ns) FROM recorded_span) AS longest_ns,
        COALESCE(SUM(computing_ns), 0) AS computing_ns,
        SUM(transfer_ns) AS transfer_ns,
        SUM(wait_ns) AS wait_ns,
        SUM(unmatched_ns) AS unmatched_ns,
        SUM(copy_ns) AS copy_ns,
        COALESCE(SUM(idle_ns), 0) AS idle_ns,
        COUNT(DISTINCT rank) AS ranks
    FROM device_part
),
share AS (
    SELECT UNNEST([
        {'place': 2, 'headline': 'computing', 'ns': computing_ns, 'note': 'a compute kernel ran; percent of all GPU spans'},
        {'place': 3, 'headline': 'exposed transfer', 'ns': transfer_ns, 'note': 'a collective moved data, and no compute kernel ran'},
        {'place': 4, 'headline': 'waiting', 'ns': wait_ns, 'note': 'collectives waited for a late rank, and no compute kernel ran'},
        {'place': 5, 'headline': 'exposed comm', 'ns': unmatched_ns, 'note': 'a collective ran that was not matched on all ranks: transfer or waiting'},
        {'place': 6, 'headline': 'exposed copies', 'ns': copy_ns, 'note': 'only memory copies or sets ran'},
        {'place': 7, 'headline': 'idle', 'ns': idle_ns, 'note': 'nothing ran on the GPU'}
    ], recursive := TRUE), window_ns
    FROM state
    WHERE window_ns > 0
),
phase AS (
    SELECT
        phase,
        quantile_cont(gpu_dur, 0.5) AS median_ns,
        COUNT(DISTINCT number) FILTER (rank = (SELECT MIN(rank) FROM step)) AS steps
    FROM step
    WHERE phase IN ('prefill', 'decode', 'mixed') AND gpu_dur IS NOT NULL
    GROUP BY phase
),
first_rank AS (
    SELECT
        SUM(generation_tokens) AS tokens,
        MAX(end_ts) - MIN(gpu_ts) AS span_ns
    FROM (
        -- Its devices process the same tokens.
        SELECT number, MAX(generation_tokens) AS generation_tokens, MIN(gpu_ts) AS gpu_ts, MAX(gpu_ts + gpu_dur) AS end_ts
        FROM step
        WHERE rank = (SELECT MIN(rank) FROM step)
        GROUP BY number
    )
    HAVING (SELECT BOOL_AND(is_connected) FROM device_part WHERE rank = (SELECT MIN(rank) FROM step))
),
proof AS (
    SELECT COUNT(*) FILTER (ok) AS held, COUNT(ok) AS checks FROM ledger
),
-- A profile without a trace.
profiled AS (
    SELECT
        COUNT(*) AS launches,
        SUM(work.dur ORDER BY work.launch) AS ns,
        SUM(work.dram_bytes ORDER BY work.launch)
        / NULLIF(SUM(work.dur ORDER BY work.launch) FILTER (work.dram_bytes IS NOT NULL), 0) AS gbps,
        CASE WHEN COUNT(DISTINCT launch.device_name) = 1 THEN ANY_VALUE(launch.device_name) END AS device_name
    FROM profiled_launch AS launch
    INNER JOIN profiled_work AS work ON launch.id = work.launch
    WHERE NOT EXISTS (FROM trace)
    HAVING COUNT(*) > 0
),
memory_peak AS (
    SELECT device_name, MAX(hbm_gbps) AS gbps FROM peak WHERE kind = 'data sheet' GROUP BY device_name
),
headline AS (
    SELECT 1 AS place, 'recorded' AS headline, longest_ns AS value, 'ns' AS unit,
        'longest GPU span of ' || ranks || CASE ranks WHEN 1 THEN ' rank' ELSE ' ranks' END AS note
    FROM state
    WHERE ranks > 0
    UNION ALL
    SELECT place, headline, 100.0 * ns / window_ns, 'percent', note
    FROM share
    WHERE ns IS NOT NULL
    UNION ALL
    SELECT 7 + row_number() OVER (ORDER BY steps DESC, phase), phase || ' step', median_ns, 'ns',
        'median duration on the GPU, of ' || steps || CASE steps WHEN 1 THEN ' step' ELSE ' steps' END
    FROM phase
    UNION ALL
    SELECT 11, 'output', 1e9 * tokens / span_ns, 'tokens/s', tokens || ' tokens generated'
    FROM first_rank
    WHERE tokens > 0 AND span_ns > 0
    UNION ALL
    SELECT 1, 'profiled', launches, 'launches', 'by Nsight Compute; it has no timeline' FROM profiled
    UNION ALL
    SELECT 2, 'kernel time', ns, 'ns', 'of these launches, each of which ran alone' FROM profiled WHERE ns IS NOT NULL
    UNION ALL
    SELECT 3, 'memory', profiled.gbps, 'GB/s',
        'read and written during these launches'
        || COALESCE(format('; {:.0f}% of the peak', 100 * profiled.gbps / memory_peak.gbps), '')
    FROM profiled
    LEFT JOIN memory_peak USING (device_name)
    WHERE profiled.gbps IS NOT NULL
    UNION ALL
    SELECT 12, 'ledger', held, CASE held WHEN 1 THEN 'check' ELSE 'checks' END,
        'of ' || checks || CASE checks WHEN 1 THEN ' holds' ELSE ' hold' END
    FROM proof
    WHERE checks > 0
)
SELECT headline, CAST(value AS DOUBLE) AS value, unit, text_for_dialect((SELECT MIN(dialect) FROM trace HAVING MIN(dialect) = MAX(dialect)), note) AS note
FROM headline
ORDER BY place
