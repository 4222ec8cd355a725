-- One row per engine, number of output tokens, kind of load and metric: a curve through its measured medians, and how far off it is.
--
-- Use it to say the cost of a request at sizes between the measured ones, and what of it is
-- fixed. TTFT = fixed_ns + linear_ns x prompt tokens in flight + context_ns x (prompt tokens)² x
-- requests in flight. TPOT = fixed_ns + linear_ns x requests in flight + context_ns x tokens in the KV
-- cache of all of them, half of the output counted. Coefficients are not negative, and have the least
-- sum of squared relative errors. Beyond the measured sizes, the curve is a guess; unseen_error_pct
-- is its error on points that were left out of the fit.
-- @column engine            VARCHAR  Engine.
-- @column load              VARCHAR  Kind of load: batch or concurrency.
-- @column output_tokens     BIGINT   Tokens that each request generates.
-- @column metric            VARCHAR  ttft or tpot.
-- @column points            BIGINT   Measured points.
-- @column fixed_ns          DOUBLE   The part that every request waits for, ns; NULL without a fit.
-- @column linear_ns         DOUBLE   TTFT: ns per prompt token in flight. TPOT: per request in flight, ns.
-- @column context_ns        DOUBLE   TTFT: ns per squared prompt token. TPOT: per token in the KV cache, ns.
-- @column median_error_pct  DOUBLE   Median distance of a measured point from the curve, percent of the point.
-- @column worst_error_pct   DOUBLE   Greatest distance of a measured point from the curve, percent of the point.
-- @column worst_point       VARCHAR  The point of the greatest distance: its requests in flight and prompt tokens.
-- @column unseen_error_pct  DOUBLE   Median distance of a point from the curve through all others, percent; NULL with four points.
-- @column reason            VARCHAR  Why there is no fit; NULL if there is one.
-- @column experiment        VARCHAR  Experiment.
-- @key    engine metric fixed_ns linear_ns context_ns median_error_pct worst_error_pct worst_point unseen_error_pct reason output_tokens
-- @empty  no point has both a latency and a known number of requests in flight; arrivals at a rate have no curve
-- @chart  none
WITH engine AS (
    SELECT experiment_id, engine_key, ANY_VALUE(engine) AS engine
    FROM point
    GROUP BY experiment_id, engine_key
),
worst AS (
    SELECT
        fit_point.fit_id,
        format('{:,} in flight, {:,} prompt tokens', point.in_flight, point.prompt_tokens) AS worst_point
    FROM fit_point
    INNER JOIN point USING (point_id)
    QUALIFY ROW_NUMBER() OVER (PARTITION BY fit_point.fit_id ORDER BY ABS(fit_point.error_pct) DESC, point.point_id) = 1
)
SELECT
    engine.engine, fit.load, fit.output_tokens, fit.metric, fit.points, fit.fixed_ns, fit.linear_ns,
    fit.context_ns, fit.median_error_pct, fit.worst_error_pct, worst.worst_point,
    fit.unseen_error_pct, fit.reason,
    experiment.name AS experiment
FROM fit
INNER JOIN engine USING (experiment_id, engine_key)
INNER JOIN experiment USING (experiment_id)
LEFT JOIN worst USING (fit_id)
ORDER BY fit.metric DESC, fit.fit_id
