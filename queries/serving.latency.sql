-- One row per workload pass and latency: mean and percentiles over the requests.
--
-- Use it to see what users experienced. The unprofiled pass has no profiler overhead; the profiled
-- pass is the one in the trace. ttft is the time to first token, tpot the time per output token
-- after the first, itl the interval between tokens, e2e the time from sending the request to its
-- last token. ttft, tpot and e2e have one value per request, itl one per interval. So that the two
-- passes can be compared, only requests that finished in both count, unless requests is all: the
-- recorded window cuts requests off, and those that finish in it are the short ones. Percentiles are
-- interpolated linearly.
-- @param  requests  VARCHAR = common  common (requests that finished in every pass of their run) or all.
-- @values requests  common all
-- @column pass      VARCHAR  profiled or unprofiled.
-- @column latency   VARCHAR  ttft, tpot, itl or e2e.
-- @column count     BIGINT   Number of values.
-- @column mean_ns   DOUBLE   Mean, ns.
-- @column p50_ns    DOUBLE   Median, ns.
-- @column p90_ns    DOUBLE   90th percentile, ns.
-- @column p99_ns    DOUBLE   99th percentile, ns.
-- @key    pass latency p50_ns p99_ns mean_ns p90_ns count
-- @empty  no request finished in every pass (see --requests all), or there are none; latencies come with run directories (traceql capture, then traceql load runs/NAME)
-- @chart  range x=p50_ns,p90_ns,p99_ns y=latency color=pass
-- @title  Latencies: median (dot), 90th and 99th percentile
WITH chosen AS (
    SELECT *
    FROM request
    QUALIFY
        $requests::VARCHAR = 'all'
        OR COUNT(DISTINCT profiled) FILTER (finished) OVER (PARTITION BY run, request_id)
        = COUNT(DISTINCT profiled) OVER (PARTITION BY run)
),
value AS (
    SELECT profiled, 1 AS place, 'ttft' AS latency, ttft_ns AS ns FROM chosen
    UNION ALL
    SELECT profiled, 2, 'tpot', tpot_ns FROM chosen
    UNION ALL
    SELECT profiled, 3, 'itl', UNNEST(itl_ns) FROM chosen
    UNION ALL
    SELECT profiled, 4, 'e2e', e2e_ns FROM chosen
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
