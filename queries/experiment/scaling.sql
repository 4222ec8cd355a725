-- One row per point and the same one on fewer GPUs: how many times faster it is, and how much of the added GPUs that uses.
--
-- Use it to see what more GPUs gain. In strong scaling the load stays, in weak scaling the load per GPU
-- does. The base is the engine with the fewest GPUs that was measured, base_gpus of them. ratio is
-- base / point of a latency and point / base of throughput: the Hodges-Lehmann estimate over all pairs
-- of repeats, with its exact interval of 95%, which needs four repeats of each.
--
-- Strong scaling: speedup = base_gpus x ratio, so that a perfect base counts as many times one GPU, and
-- efficiency = speedup / gpus. Weak scaling: efficiency is the ratio of a latency, or of the throughput
-- per GPU; there is no speed-up. serial_pct is the share of the work of one GPU that no further GPU
-- shortens (Karp and Flatt 1990): s with ratio = (s + (1-s)/b) / (s + (1-s)/n) for b base GPUs and n
-- GPUs, which is (1/S - 1/n) / (1 - 1/n) for b = 1. If it grows with n, it is overhead and not serial
-- work. It is NULL in weak scaling, and where no share explains how slow the point is, which
-- happens only with b > 1; it is above 100 where n GPUs are slower than the base.
-- @param  metric         VARCHAR = tpot  Latency, or output_tokens_per_second.
-- @values metric         tpot ttft e2e batch_latency output_tokens_per_second
-- @column engine         VARCHAR  Engine.
-- @column base_engine    VARCHAR  Engine that it is compared with.
-- @column scaling        VARCHAR  strong or weak.
-- @column gpus           BIGINT   GPUs of the engine, n.
-- @column base_gpus      BIGINT   GPUs of the base, b.
-- @column in_flight      BIGINT   Requests in flight; NULL if only a rate limits them.
-- @column load           DOUBLE   Requests in flight, or arrivals per second, that stay: all in strong scaling, those per GPU in weak scaling.
-- @column prompt_tokens  BIGINT   Tokens of each prompt.
-- @column output_tokens  BIGINT   Tokens that each request generates.
-- @column ratio          DOUBLE   How many times better the point is than its base.
-- @column ratio_low      DOUBLE   Lower end of its interval; NULL with fewer than four repeats.
-- @column ratio_high     DOUBLE   Upper end of its interval.
-- @column speedup        DOUBLE   Strong scaling: base_gpus x ratio.
-- @column efficiency_pct DOUBLE   Share of the GPUs that the speed-up is worth, percent.
-- @column low_pct        DOUBLE   Lower end of its interval, percent; NULL with fewer than four repeats.
-- @column high_pct       DOUBLE   Upper end of its interval, percent.
-- @column serial_pct     DOUBLE   Serial share of Karp and Flatt, percent; negative if the speed-up is more than linear.
-- @column serial_low_pct  DOUBLE  Lower end of its interval, percent.
-- @column serial_high_pct DOUBLE  Upper end of its interval, percent.
-- @column experiment     VARCHAR  Experiment.
-- @column metric         VARCHAR  The parameter metric.
-- @column panel          VARCHAR  Panel of the chart: kind of scaling, what grew, and the tokens.
-- @key    engine base_engine scaling in_flight prompt_tokens output_tokens ratio speedup efficiency_pct low_pct high_pct serial_pct
-- @empty  no two engines differ in their GPUs alone, with equal loads or equal loads per GPU; see the preset scaling, and --metric batch_latency for vllm bench latency
-- @chart  curve x=gpus y=efficiency_pct low=low_pct high=high_pct color=load panel=panel name=metric
-- @title  Scaling efficiency by GPUs and load (weak scaling: load per GPU)
WITH pair AS (
    SELECT
        speedup.*, point.engine,
        base.engine AS base_engine,
        point.gpus,
        base.gpus AS base_gpus,
        point.in_flight, point.request_rate,
        base_label.load_value / CASE speedup.scaling WHEN 'weak' THEN base.gpus ELSE 1 END AS load,
        point.prompt_tokens, point.output_tokens,
        1.0 / base.gpus AS base_part,
        1.0 / point.gpus AS part,
        concat_ws(
            ' x ',
            CASE WHEN point.tp != base.tp THEN 'TP' END,
            CASE WHEN point.pp != base.pp THEN 'PP' END,
            CASE WHEN point.dp != base.dp THEN 'DP' END
        ) || CASE WHEN point.ep THEN ' with EP' ELSE '' END AS grown,
        CASE
            WHEN speedup.scaling = 'weak' AND speedup.metric != 'output_tokens_per_second' THEN 1
            ELSE base.gpus / point.gpus
        END AS worth
    FROM speedup
    INNER JOIN point USING (point_id)
    INNER JOIN point AS base ON speedup.base_point_id = base.point_id
    INNER JOIN point_label AS base_label ON speedup.base_point_id = base_label.point_id
    WHERE speedup.metric = $metric::VARCHAR
),
serial AS (
    SELECT
        pair.*,
        [
            CASE
                WHEN one * (1 - part) - (1 - base_part) > 0
                    THEN (base_part - one * part) / (one * (1 - part) - (1 - base_part))
            END
            FOR one IN CASE WHEN scaling = 'strong' THEN [ratio, high, low] ELSE [NULL, NULL, NULL] END
        ] AS share
    FROM pair
)
SELECT
    serial.engine, serial.base_engine, serial.scaling, serial.gpus, serial.base_gpus,
    serial.in_flight, serial.load, serial.prompt_tokens, serial.output_tokens, serial.ratio,
    serial.low AS ratio_low,
    serial.high AS ratio_high,
    CASE WHEN serial.scaling = 'strong' THEN serial.base_gpus * serial.ratio END AS speedup,
    100 * serial.worth * serial.ratio AS efficiency_pct,
    100 * serial.worth * serial.low AS low_pct,
    100 * serial.worth * serial.high AS high_pct,
    100 * serial.share[1] AS serial_pct,
    100 * serial.share[2] AS serial_low_pct,
    100 * serial.share[3] AS serial_high_pct,
    point_label.experiment, serial.metric,
    format(
        '{}{}, {}, {}{}',
        point_label.scope,
        serial.grown,
        serial.scaling,
        point_label.tokens_label,
        point_label.limit_label
    ) AS panel
FROM serial
INNER JOIN point_label USING (point_id)
ORDER BY serial.scaling, serial.gpus, serial.point_id
