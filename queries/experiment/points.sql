-- One row per measured point: its latencies and throughput, medians of the repeats.
--
-- @param  limit              INTEGER = NULL  Rows to return.
-- @column engine             VARCHAR  Engine.
-- @column in_flight          BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column request_rate       DOUBLE   Arriving requests per second; NULL if they do not wait to arrive.
-- @column prompt_tokens      BIGINT   Tokens of each prompt.
-- @column output_tokens      BIGINT   Tokens that each request generates.
-- @column repeats            BIGINT   Complete repeats, each a start of the server.
-- @column ttft_ns            DOUBLE   Median time to the first token, ns.
-- @column tpot_ns            DOUBLE   Median time per output token after the first, ns.
-- @column e2e_ns             DOUBLE   Median time to the last token, ns.
-- @column tokens_per_second  DOUBLE   Generated tokens per second.
-- @column spread_pct         DOUBLE   From the lowest to the highest repeat, percent of their median: of TTFT, TPOT, time to the last token or tokens per second, whichever has most.
-- @key    engine in_flight prompt_tokens output_tokens ttft_ns tpot_ns tokens_per_second spread_pct
-- @empty  nothing is measured yet; see the query failures
-- @chart  none
SELECT
    point.engine, point.in_flight, point.request_rate, point.prompt_tokens, point.output_tokens,
    MAX(value.repeats) AS repeats,
    MAX(value.median) FILTER (value.metric = 'ttft') AS ttft_ns,
    MAX(value.median) FILTER (value.metric = 'tpot') AS tpot_ns,
    MAX(value.median) FILTER (value.metric IN ('e2e', 'batch_latency')) AS e2e_ns,
    MAX(value.median) FILTER (value.metric = 'output_tokens_per_second') AS tokens_per_second,
    MAX(value.spread_pct) AS spread_pct
FROM point
INNER JOIN point_value AS value USING (point_id)
WHERE
    (value.metric IN ('ttft', 'tpot', 'e2e', 'batch_latency') AND value.stat = 'median')
    OR value.metric = 'output_tokens_per_second'
GROUP BY point.point_id, point.engine, point.in_flight, point.request_rate, point.prompt_tokens, point.output_tokens
ORDER BY point.point_id
LIMIT $limit::BIGINT
