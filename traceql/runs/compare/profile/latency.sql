-- One row per number that users see: latencies of requests and tokens per second.
--
-- Latencies are those of the pass without the profiler, if the run directory has it, of the requests
-- that finished in every pass. Tokens per second count the tokens that the recorded steps generated,
-- over the longest GPU span of a rank.
-- @kind   result
-- @column metric  VARCHAR  ttft, tpot, itl or e2e (median, ns), or tokens_per_second.
-- @column value   DOUBLE   The number.
-- @column source  VARCHAR  unprofiled or profiled: the pass that it is from.
-- @column count   BIGINT   Number of requests, intervals or tokens behind it.
WITH finished AS (
    SELECT *
    FROM request
    QUALIFY
        COUNT(DISTINCT profiled) FILTER (finished) OVER (PARTITION BY run, request_id)
        = COUNT(DISTINCT profiled) OVER (PARTITION BY run)
),
chosen AS (
    SELECT * FROM finished QUALIFY profiled = MIN(profiled) OVER ()
),
timed AS (
    SELECT profiled, 'ttft' AS metric, ttft_ns AS ns FROM chosen
    UNION ALL
    SELECT profiled, 'tpot', tpot_ns FROM chosen
    UNION ALL
    SELECT profiled, 'itl', UNNEST(itl_ns) FROM chosen
    UNION ALL
    SELECT profiled, 'e2e', e2e_ns FROM chosen
),
generated AS (
    SELECT rank, SUM(tokens) AS tokens
    FROM (SELECT rank, number, MAX(generation_tokens) AS tokens FROM step GROUP BY rank, number)
    GROUP BY rank
),
span AS (
    SELECT MAX(ns) AS ns
    FROM (SELECT SUM(dur) AS ns FROM device_timeline GROUP BY rank, device)
)
SELECT
    metric,
    quantile_cont(ns, 0.5) AS value,
    CASE WHEN ANY_VALUE(profiled) THEN 'profiled' ELSE 'unprofiled' END AS source,
    COUNT(ns) AS count
FROM timed
WHERE ns IS NOT NULL
GROUP BY metric
UNION ALL
SELECT 'tokens_per_second', 1e9 * generated.tokens / span.ns, 'profiled', CAST(generated.tokens AS BIGINT)
FROM generated
CROSS JOIN span
WHERE generated.rank = (SELECT MIN(rank) FROM generated) AND generated.tokens > 0 AND span.ns > 0
ORDER BY metric
