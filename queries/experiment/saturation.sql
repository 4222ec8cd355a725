-- One row per measured point, by engine, tokens and load: its throughput, what it gained over the load before, and whether there was more to gain.
--
-- Use it to find the load from which on requests only wait. gain_pct compares the output tokens per
-- second with those of the next lower load: the Hodges-Lehmann estimate over all pairs of repeats, with
-- its exact interval of 95%, which needs four repeats of each; load_gain_pct is how much the load grew
-- for it. An engine is saturated if throughput no longer rises (the whole interval of the gain is below
-- margin_pct) while TTFT or the longest time in the queue grows (its whole interval is above 0). It is
-- not if the whole interval of the gain is above margin_pct, and else it is undecided. Good requests
-- meet all limits of the plan.
-- @param  margin_pct                DOUBLE = 5  A gain below which throughput no longer rises, percent.
-- @column engine                    VARCHAR  Engine.
-- @column in_flight                 BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column request_rate              DOUBLE   Arriving requests per second; NULL if they do not wait to arrive.
-- @column prompt_tokens             BIGINT   Tokens of each prompt.
-- @column output_tokens             BIGINT   Tokens that each request generates.
-- @column output_tokens_per_second  DOUBLE   Output tokens per second, median of the repeats.
-- @column requests_per_second       DOUBLE   Finished requests per second, median of the repeats.
-- @column low                       DOUBLE   Lower end of its interval; NULL of one repeat.
-- @column high                      DOUBLE   Upper end of its interval.
-- @column good_requests_per_second  DOUBLE   Goodput, median of the repeats; NULL if the plan has no limits.
-- @column good_pct                  DOUBLE   Good requests, percent of the finished ones: median of the repeats.
-- @column queue_max_ns              DOUBLE   Longest time in the queue, ns: median of the repeats; NULL if unknown.
-- @column ttft_p50_ns               DOUBLE   Median TTFT, ns: median of the repeats.
-- @column ttft_p99_ns               DOUBLE   99th percentile of TTFT, ns: median of the repeats.
-- @column load_gain_pct             DOUBLE   How much higher the load is than the one before, percent; NULL of the lowest.
-- @column gain_pct                  DOUBLE   How much higher the output tokens per second are, percent.
-- @column gain_low_pct              DOUBLE   Lower end of the interval of the gain, percent; NULL with fewer than four repeats.
-- @column gain_high_pct             DOUBLE   Upper end of the interval of the gain, percent.
-- @column saturated                 VARCHAR  yes, no or undecided; NULL of the lowest load.
-- @column experiment                VARCHAR  Experiment.
-- @column panel                     VARCHAR  Panel of the chart: tokens of a request, and the limit of requests that arrive at a rate.
-- @key    engine in_flight request_rate prompt_tokens output_tokens output_tokens_per_second good_pct ttft_p50_ns ttft_p99_ns gain_pct saturated
-- @empty  nothing is measured yet; see the query failures
-- @chart  curve x=request_rate,in_flight y=requests_per_second low=low high=high second=good_requests_per_second color=engine panel=panel
-- @title  Requests per second by load, and those that meet the limits
WITH value AS (
    SELECT
        point_id,
        ANY_VALUE(median) FILTER (metric = 'output_tokens_per_second') AS output_tokens_per_second,
        ANY_VALUE(median) FILTER (metric = 'requests_per_second') AS requests_per_second,
        ANY_VALUE(low) FILTER (metric = 'requests_per_second') AS low,
        ANY_VALUE(high) FILTER (metric = 'requests_per_second') AS high,
        ANY_VALUE(median) FILTER (metric = 'good_requests_per_second') AS good_requests_per_second,
        ANY_VALUE(median) FILTER (metric = 'queue' AND stat = 'max') AS queue_max_ns,
        ANY_VALUE(median) FILTER (metric = 'ttft' AND stat = 'median') AS ttft_p50_ns,
        ANY_VALUE(median) FILTER (metric = 'ttft' AND stat = 'p99') AS ttft_p99_ns
    FROM point_value
    GROUP BY point_id
),
good AS (
    SELECT point_id, 100 * quantile_cont(share, 0.5) AS good_pct
    FROM (
        SELECT
            repeat.point_id,
            ANY_VALUE(measurement.value) FILTER (measurement.metric = 'good_requests_per_second')
            / NULLIF(ANY_VALUE(measurement.value) FILTER (measurement.metric = 'requests_per_second'), 0) AS share
        FROM repeat
        INNER JOIN measurement USING (repeat_id)
        WHERE repeat.number > 0
        GROUP BY repeat.point_id, repeat.repeat_id
    )
    GROUP BY point_id
),
step AS (
    SELECT
        point_id,
        ANY_VALUE(before_point_id) AS before_point_id,
        ANY_VALUE(100 * change) FILTER (metric = 'output_tokens_per_second' AND is_ratio) AS gain_pct,
        ANY_VALUE(100 * low) FILTER (metric = 'output_tokens_per_second' AND is_ratio) AS gain_low_pct,
        ANY_VALUE(100 * high) FILTER (metric = 'output_tokens_per_second' AND is_ratio) AS gain_high_pct,
        COALESCE(BOOL_OR(low > 0) FILTER (metric IN ('ttft', 'queue')), FALSE) AS waits_longer
    FROM gain
    GROUP BY point_id
)
SELECT
    point.engine, point.in_flight, point.request_rate, point.prompt_tokens, point.output_tokens,
    value.output_tokens_per_second, value.requests_per_second, value.low, value.high,
    value.good_requests_per_second, good.good_pct, value.queue_max_ns, value.ttft_p50_ns,
    value.ttft_p99_ns,
    100 * (point_label.load_value / before_label.load_value - 1) AS load_gain_pct,
    step.gain_pct, step.gain_low_pct, step.gain_high_pct,
    CASE
        WHEN step.point_id IS NULL THEN NULL
        WHEN step.gain_low_pct > $margin_pct::DOUBLE THEN 'no'
        WHEN step.gain_high_pct < $margin_pct::DOUBLE AND step.waits_longer THEN 'yes'
        ELSE 'undecided'
    END AS saturated,
    point_label.experiment,
    point_label.scope || point_label.tokens_label || point_label.limit_label AS panel
FROM point
INNER JOIN value USING (point_id)
INNER JOIN point_label USING (point_id)
LEFT JOIN good USING (point_id)
LEFT JOIN step USING (point_id)
LEFT JOIN point_label AS before_label ON step.before_point_id = before_label.point_id
ORDER BY
    point.experiment_id, point.prompt_tokens, point.output_tokens, point.engine, point.load,
    point_label.load_value, point.in_flight, point.point_id
