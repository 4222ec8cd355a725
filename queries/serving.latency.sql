-- One row per pass and latency: mean and percentiles over its requests.
--
-- TTFT, TPOT and end to end over requests, ITL over all intervals between tokens. Percentiles are
-- interpolated linearly. The unprofiled pass is what users see; the profiled one is in the trace.
-- @column pass      VARCHAR  profiled or unprofiled.
-- @column latency   VARCHAR  ttft, tpot, itl or e2e.
-- @column count     BIGINT   Values.
-- @column mean_ns   DOUBLE   Mean, ns.
-- @column p50_ns    DOUBLE   Median, ns.
-- @column p90_ns    DOUBLE   90th percentile, ns.
-- @column p99_ns    DOUBLE   99th percentile, ns.
-- @empty  latencies come with a run directory: traceql capture, then traceql load runs/NAME
-- @chart  bar x=p50_ns y=latency group=pass
-- @title  Median latency, with and without the profiler
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
