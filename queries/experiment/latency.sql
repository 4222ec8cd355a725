-- One row per measured point: its latency with interval, and the fit through all points.
--
-- Use it to see what a prompt token and a request in flight cost. Each number is the median over the
-- repeats of the median over the requests of a repeat; a repeat is one start of the server. The curve
-- is that of the query fit. That of e2e is composed and not fitted: the curve of ttft plus output
-- tokens less one times that of tpot, so that its error is a test of both. itl has no curve.
-- A batch of vllm bench latency has the end-to-end latency of its requests.
-- @param  metric         VARCHAR = tpot  ttft (to the first token), tpot (per output token after it), itl (between tokens) or e2e (to the last token).
-- @values metric         ttft tpot itl e2e
-- @column engine         VARCHAR  Engine.
-- @column in_flight      BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column request_rate   DOUBLE   Arriving requests per second; NULL if they do not wait to arrive.
-- @column prompt_tokens  BIGINT   Tokens of each prompt.
-- @column output_tokens  BIGINT   Tokens that each request generates.
-- @column median_ns      DOUBLE   Median of the repeats, ns.
-- @column low_ns         DOUBLE   Lower end of the interval of that median, ns; NULL of one repeat.
-- @column high_ns        DOUBLE   Upper end of the interval, ns.
-- @column coverage_pct   DOUBLE   Probability that such an interval contains the median of all possible repeats, percent.
-- @column repeats        BIGINT   Complete repeats, each a start of the server.
-- @column fitted_ns      DOUBLE   The latency on the curve, ns; NULL if there is none.
-- @column fixed_ns       DOUBLE   Part of fitted_ns that does not depend on the load, ns.
-- @column linear_ns      DOUBLE   Part that grows with the prompt tokens (ttft) or requests (tpot) in flight, ns.
-- @column context_ns     DOUBLE   Part of attention over the context, ns.
-- @column error_pct      DOUBLE   Distance of the curve from the measured latency, percent of it; positive if the curve is above.
-- @column experiment     VARCHAR  Experiment.
-- @column metric         VARCHAR  The parameter metric.
-- @column panel          VARCHAR  Panel of the chart: engine, output tokens, and the limit of requests that arrive at a rate.
-- @key    engine in_flight request_rate prompt_tokens output_tokens median_ns low_ns high_ns fitted_ns error_pct
-- @empty  no point has this latency: see the queries ledger and failures; vllm bench latency measures e2e alone
-- @chart  curve x=prompt_tokens y=median_ns low=low_ns high=high_ns fit=fitted_ns color=in_flight,request_rate panel=panel name=metric
-- @title  Latency by prompt length and load: medians with intervals, and the fitted curve
WITH fitted AS (
    SELECT fit_point.point_id, fit.metric, fit_point.fixed_ns, fit_point.linear_ns, fit_point.context_ns
    FROM fit_point
    INNER JOIN fit USING (fit_id)
),
curve AS (
    SELECT * FROM fitted
    UNION ALL
    SELECT
        ttft.point_id,
        'e2e' AS metric,
        ttft.fixed_ns + (point.output_tokens - 1) * tpot.fixed_ns AS fixed_ns,
        ttft.linear_ns + (point.output_tokens - 1) * tpot.linear_ns AS linear_ns,
        ttft.context_ns + (point.output_tokens - 1) * tpot.context_ns AS context_ns
    FROM fitted AS ttft
    INNER JOIN fitted AS tpot ON ttft.point_id = tpot.point_id AND tpot.metric = 'tpot'
    INNER JOIN point ON ttft.point_id = point.point_id
    WHERE ttft.metric = 'ttft'
),
measured AS (
    SELECT *, CASE WHEN metric = 'batch_latency' THEN 'e2e' ELSE metric END AS latency
    FROM point_value
    WHERE stat = 'median' AND metric IN ('ttft', 'tpot', 'itl', 'e2e', 'batch_latency')
)
SELECT
    point.engine, point.in_flight, point.request_rate, point.prompt_tokens, point.output_tokens,
    measured.median AS median_ns,
    measured.low AS low_ns,
    measured.high AS high_ns,
    measured.coverage_pct, measured.repeats,
    curve.fixed_ns + curve.linear_ns + curve.context_ns AS fitted_ns,
    curve.fixed_ns, curve.linear_ns, curve.context_ns,
    100 * ((curve.fixed_ns + curve.linear_ns + curve.context_ns) / NULLIF(measured.median, 0) - 1) AS error_pct,
    point_label.experiment,
    measured.latency AS metric,
    format(
        '{}{}, {:,} output tokens{}', point_label.own, point.engine, point.output_tokens, point_label.limit_label
    ) AS panel
FROM measured
INNER JOIN point USING (point_id)
INNER JOIN point_label USING (point_id)
LEFT JOIN curve ON measured.point_id = curve.point_id AND measured.metric = curve.metric
WHERE measured.latency = $metric::VARCHAR
ORDER BY point.point_id
