-- One row per measured point: throughput per user against throughput per GPU, and whether another point is better in both.
--
-- Use it to choose an engine and a load: only points on the front are worth running. Interactivity is
-- 1 / median TPOT, the output tokens per second of one user. Throughput counts output tokens alone, and
-- divides by all GPUs of the engine. Both are medians of the repeats, each with an interval that covers
-- the median of all possible repeats with coverage_pct; that is of each end, not of both at once. A
-- point is dominated only if the whole intervals of another one are better in both, and on the front
-- only if no interval of another one leaves room for that. All else is undecided, as is every
-- comparison with a point of one repeat. Points are compared with those of the same model, prompt and
-- output tokens. The line of the chart is the front of the medians.
-- @column engine                            VARCHAR  Engine.
-- @column in_flight                         BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column request_rate                      DOUBLE   Arriving requests per second; NULL if they do not wait to arrive.
-- @column prompt_tokens                     BIGINT   Tokens of each prompt.
-- @column output_tokens                     BIGINT   Tokens that each request generates.
-- @column gpus                              BIGINT   GPUs of the engine.
-- @column tokens_per_second_per_user        DOUBLE   Interactivity: 1 / median TPOT, output tokens per second.
-- @column user_low                          DOUBLE   Lower end of its interval; NULL of one repeat.
-- @column user_high                         DOUBLE   Upper end of its interval.
-- @column output_tokens_per_second_per_gpu  DOUBLE   Output tokens per second / GPUs.
-- @column gpu_low                           DOUBLE   Lower end of its interval; NULL of one repeat.
-- @column gpu_high                          DOUBLE   Upper end of its interval.
-- @column coverage_pct                      DOUBLE   Coverage of each of the intervals, percent; NULL of one repeat.
-- @column repeats                           BIGINT   Complete repeats, each a start of the server.
-- @column front                             VARCHAR  on the front, dominated or undecided.
-- @column load                              VARCHAR  Label of the point: requests in flight, or arrivals per second.
-- @column experiment                        VARCHAR  Experiment.
-- @column panel                             VARCHAR  Panel of the chart: points that are compared with each other.
-- @key    engine in_flight request_rate prompt_tokens output_tokens tokens_per_second_per_user output_tokens_per_second_per_gpu front
-- @empty  no point has a TPOT; vllm bench latency does not measure it, vllm bench serve does
-- @chart  front x=tokens_per_second_per_user x_low=user_low x_high=user_high y=output_tokens_per_second_per_gpu y_low=gpu_low y_high=gpu_high color=engine label=load front=front panel=panel
-- @title  Output tokens/s per GPU and per user at each load, and the front of the medians
WITH tpot AS (
    SELECT * FROM point_value
    WHERE metric = 'tpot' AND stat = 'median' AND median > 0
),
rate AS (
    SELECT * FROM point_value
    WHERE metric = 'output_tokens_per_second'
),
measured AS (
    SELECT
        point.*,
        concat_ws('/', point.model, point.prompt_tokens, point.output_tokens) AS compared,
        1e9 / tpot.median AS tokens_per_second_per_user,
        1e9 / tpot.high AS user_low,
        1e9 / NULLIF(tpot.low, 0) AS user_high,
        rate.median / point.gpus AS output_tokens_per_second_per_gpu,
        rate.low / point.gpus AS gpu_low,
        rate.high / point.gpus AS gpu_high,
        CASE
            WHEN tpot.coverage_pct IS NOT NULL AND rate.coverage_pct IS NOT NULL
                THEN LEAST(tpot.coverage_pct, rate.coverage_pct)
        END AS coverage_pct,
        LEAST(tpot.repeats, rate.repeats) AS repeats
    FROM point
    INNER JOIN tpot USING (point_id)
    INNER JOIN rate USING (point_id)
),
faced AS (
    SELECT
        one.point_id,
        other.user_low >= one.user_high
        AND other.gpu_low >= one.gpu_high
        AND (other.user_low > one.user_high OR other.gpu_low > one.gpu_high) AS is_better,
        other.user_high < one.user_low
        OR other.gpu_high < one.gpu_low
        OR (other.user_high = one.user_low AND other.gpu_high = one.gpu_low) AS is_not_better
    FROM measured AS one
    INNER JOIN measured AS other ON one.compared = other.compared AND one.point_id != other.point_id
),
judged AS (
    SELECT
        point_id,
        BOOL_OR(COALESCE(is_better, FALSE)) AS is_dominated,
        BOOL_AND(COALESCE(is_not_better, FALSE)) AS is_on_front
    FROM faced
    GROUP BY point_id
)
SELECT
    measured.engine, measured.in_flight, measured.request_rate, measured.prompt_tokens,
    measured.output_tokens, measured.gpus, measured.tokens_per_second_per_user, measured.user_low,
    measured.user_high, measured.output_tokens_per_second_per_gpu, measured.gpu_low,
    measured.gpu_high, measured.coverage_pct, measured.repeats,
    CASE
        WHEN judged.is_dominated THEN 'dominated'
        WHEN COALESCE(judged.is_on_front, TRUE) THEN 'on the front'
        ELSE 'undecided'
    END AS front,
    point_label.load_label AS load,
    point_label.experiment,
    concat_ws('', CASE WHEN (SELECT COUNT(DISTINCT model) FROM point) > 1 THEN measured.model || ': ' END, point_label.tokens_label) AS panel
FROM measured
INNER JOIN point_label USING (point_id)
LEFT JOIN judged USING (point_id)
ORDER BY measured.model, measured.prompt_tokens, measured.output_tokens, measured.point_id
