-- One row per measured point with telemetry: the energy of a token, and the power and clock of the GPUs meanwhile.
--
-- Use it to see which engine and load take the least energy, and whether heat or the limit of power held
-- the clock down. Energy is what the counters of all GPUs of the engine counted from the first request
-- to the last token, if that took a second or more; the rest of the machine does not count. Recordings
-- without these counters have energy from ten seconds on, because NVML reports the power as a mean over
-- the last second. Power is energy / time. All numbers are medians of the repeats.
-- @column engine                        VARCHAR  Engine.
-- @column in_flight                     BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column request_rate                  DOUBLE   Arriving requests per second; NULL if they do not wait to arrive.
-- @column prompt_tokens                 BIGINT   Tokens of each prompt.
-- @column output_tokens                 BIGINT   Tokens that each request generates.
-- @column gpus                          BIGINT   GPUs of the engine.
-- @column millijoules_per_output_token  DOUBLE   Energy of all GPUs per output token, mJ.
-- @column low                           DOUBLE   Lower end of its interval, mJ; NULL of one repeat.
-- @column high                          DOUBLE   Upper end of its interval, mJ.
-- @column coverage_pct                  DOUBLE   Coverage of the interval, percent.
-- @column repeats                       BIGINT   Repeats with telemetry.
-- @column power_mw                      DOUBLE   Mean power of all GPUs of the engine, milliwatts.
-- @column power_per_gpu_mw              DOUBLE   Mean power of one GPU, milliwatts.
-- @column sm_clock_mhz                  DOUBLE   Mean SM clock, MHz.
-- @column throttled_pct                 DOUBLE   Samples in which power, heat or a slowdown limited the clock, percent.
-- @column experiment                    VARCHAR  Experiment.
-- @column panel                         VARCHAR  Panel of the chart: tokens of a request, and the limit of requests that arrive at a rate.
-- @key    engine in_flight request_rate prompt_tokens output_tokens millijoules_per_output_token power_mw power_per_gpu_mw sm_clock_mhz throttled_pct
-- @empty  no repeat has telemetry of its GPUs, which NVIDIA's driver gives while vllm bench serve runs
-- @chart  curve x=request_rate,in_flight y=millijoules_per_output_token low=low high=high color=engine panel=panel
-- @title  Energy per output token by load
WITH value AS (
    SELECT
        point_id,
        ANY_VALUE(median) FILTER (metric = 'energy_per_output_token') AS joules,
        ANY_VALUE(low) FILTER (metric = 'energy_per_output_token') AS low,
        ANY_VALUE(high) FILTER (metric = 'energy_per_output_token') AS high,
        ANY_VALUE(coverage_pct) FILTER (metric = 'energy_per_output_token') AS coverage_pct,
        MAX(repeats) AS repeats,
        ANY_VALUE(median) FILTER (metric = 'power') AS watts,
        ANY_VALUE(median) FILTER (metric = 'sm_clock') AS sm_clock_mhz,
        ANY_VALUE(median) FILTER (metric = 'throttled') AS throttled_pct
    FROM point_value
    WHERE metric IN ('energy_per_output_token', 'power', 'sm_clock', 'throttled')
    GROUP BY point_id
)
SELECT
    point.engine, point.in_flight, point.request_rate, point.prompt_tokens, point.output_tokens,
    point.gpus,
    1000 * value.joules AS millijoules_per_output_token,
    1000 * value.low AS low,
    1000 * value.high AS high,
    value.coverage_pct, value.repeats,
    1000 * value.watts AS power_mw,
    1000 * value.watts / point.gpus AS power_per_gpu_mw,
    value.sm_clock_mhz, value.throttled_pct, point_label.experiment,
    point_label.own || point_label.tokens_label || point_label.limit_label AS panel
FROM point
INNER JOIN value USING (point_id)
INNER JOIN point_label USING (point_id)
ORDER BY point.experiment_id, point.prompt_tokens, point.output_tokens, point.engine, point_label.load_value, point.point_id
