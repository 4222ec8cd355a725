-- One row per workload pass and latency: mean and percentiles over the requests.
--
-- Use it to see what users experienced. The unprofiled pass has no profiler overhead; the profiled
-- pass is the one in the trace. ttft is the time to first token, tpot the time per output token
-- after the first, itl the interval between tokens, e2e the time from sending the request to its
-- last token. ttft, tpot and e2e have one value per request, itl one per interval. Tokens that
-- arrive after the recorded window do not count in the profiled pass, so that it has fewer values.
-- Percentiles are interpolated linearly.
-- @column pass      VARCHAR  profiled or unprofiled.
-- @column latency   VARCHAR  ttft, tpot, itl or e2e.
-- @column count     BIGINT   Number of values.
-- @column mean_ns   DOUBLE   Mean, ns.
-- @column p50_ns    DOUBLE   Median, ns.
-- @column p90_ns    DOUBLE   90th percentile, ns.
-- @column p99_ns    DOUBLE   99th percentile, ns.
-- @empty  there are no requests; latencies come with run directories (traceql capture, then traceql load runs/NAME)
-- @chart  bar x=p50_ns y=latency group=pass
-- @title  Median latency with and without the profiler
WITH value AS (
    SELECT profiled, 1 AS place, 'ttft' AS latency, ttft_ns AS ns FROM request
    UNION ALL
    SELECT profiled, 2, 'tpot', tpot_ns FROM request
    UNION ALL
    SELECT profiled, 3, 'itl', UNNEST(itl_ns) FROM request
    UNION ALL
    SELECT profiled, 4, 'e2e', e2e_ns FROM request
)
SELECT
    CASE WHEN profiled THEN 'profiled' ELSE 'unprofiled' END AS pass,
    latency,
    COUNT(ns) AS count,
    AVG(ns) AS mean_ns,
    QUANTILE_CONT(ns, 0.5) AS p50_ns,
    QUANTILE_CONT(ns, 0.9) AS p90_ns,
    QUANTILE_CONT(ns, 0.99) AS p99_ns
FROM value
WHERE ns IS NOT NULL
GROUP BY profiled, place, latency
ORDER BY profiled, place
