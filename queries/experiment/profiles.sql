-- One row per point that was to be profiled: whether its traces were understood, and what the profiler cost.
--
-- Use it before other queries on profiles. Timed and profiled repeats are separate: latencies are of
-- repeats without the profiler, parts of steps of one repeat with it. overhead_pct is how far apart they
-- are: a request gets one token per step, so that the time from step to step is to be compared with the
-- time between tokens, of which the median counts, because some tokens of a batch wait for the prompts of
-- others. Requests that follow each other get tokens from mixed steps, too, those of one batch from decode
-- steps. It says nothing of pipelines, in which several batches are on their way, and too much with
-- speculative decoding, which makes several tokens of a step.
-- @column point             VARCHAR  Point.
-- @column engine            VARCHAR  Engine of the point.
-- @column in_flight         BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column prompt_tokens     BIGINT   Tokens of each prompt.
-- @column output_tokens     BIGINT   Tokens that each request generates.
-- @column status            VARCHAR  loaded, no GPU (no steps with kernels of a GPU), unusable, failed, or missing: not run yet, or killed.
-- @column reason            VARCHAR  Why it is not loaded; NULL if it is.
-- @column steps             BIGINT   Recorded steps, those of all ranks as one; 0 if none was understood.
-- @column decode_steps      BIGINT   Those of them that only decode.
-- @column interval_ns       DOUBLE   Time from step to step under the profiler, ns: of a batch, of decode steps of its usual size; of other loads, of all decode and mixed steps, the mean of the medians of each size; NULL if there are none.
-- @column profiled_tpot_ns  DOUBLE   Median TPOT of the requests under the profiler, ns; NULL if it was not measured.
-- @column tpot_ns           DOUBLE   Median TPOT of the timed repeats, ns; NULL if none is complete.
-- @column itl_ns            DOUBLE   Median time between two tokens of the timed repeats, ns; NULL if it was not measured.
-- @column overhead_pct      DOUBLE   interval_ns less itl_ns, percent of it: the overhead of the profiler; NULL with a pipeline.
-- @column peaks             VARCHAR  Peaks that MFU and MBU are a part of: data sheet, or data sheet and measured; NULL if not loaded.
-- @key    point status interval_ns itl_ns overhead_pct steps decode_steps reason
-- @empty  no point was to be profiled; run the plan with record.profile: true, which vllm bench latency cannot do
-- @chart  none
WITH recorded AS (
    SELECT
        point_id,
        CAST(SUM(units) AS BIGINT) AS steps,
        CAST(COALESCE(SUM(units) FILTER (phase = 'decode'), 0) AS BIGINT) AS decode_steps
    FROM profile_stratum
    WHERE grain = 'rows'
    GROUP BY point_id
),
paced AS (
    SELECT
        stratum.point_id,
        SUM(stratum.units * metric.ns / stratum.lanes ORDER BY stratum.stratum) / SUM(stratum.units) AS ns
    FROM profile_stratum AS stratum
    INNER JOIN profile_metric AS metric USING (point_id, grain, stratum)
    INNER JOIN point ON stratum.point_id = point.point_id
    INNER JOIN profile_main_stratum AS main
        ON stratum.point_id = main.point_id AND stratum.phase = main.phase
    WHERE
        stratum.grain = 'rows'
        AND metric.metric = 'interval'
        AND CASE
            WHEN point.batch IS NULL THEN stratum.phase IN ('decode', 'mixed')
            ELSE stratum.phase = 'decode' AND stratum.stratum = main.stratum
        END
    GROUP BY stratum.point_id
)
SELECT
    point_label.title AS point,
    point.engine, point.in_flight, point.prompt_tokens, point.output_tokens,
    CASE
        WHEN repeat.status <> 'complete' THEN repeat.status
        WHEN note.loaded IS NOT TRUE THEN 'unusable'
        WHEN recorded.steps IS NULL THEN 'no GPU'
        ELSE 'loaded'
    END AS status,
    CASE
        WHEN repeat.status <> 'complete' THEN repeat.reason
        WHEN note.loaded IS NOT TRUE THEN note.reason
        WHEN recorded.steps IS NULL THEN 'its traces have no step with kernels of a GPU'
    END AS reason,
    COALESCE(recorded.steps, 0) AS steps,
    COALESCE(recorded.decode_steps, 0) AS decode_steps,
    paced.ns AS interval_ns,
    latency.value AS profiled_tpot_ns,
    tpot.median AS tpot_ns,
    itl.median AS itl_ns,
    CASE WHEN point.pp = 1 THEN 100 * (paced.ns / NULLIF(itl.median, 0) - 1) END AS overhead_pct,
    note.peaks
FROM repeat
INNER JOIN point USING (point_id)
INNER JOIN point_label USING (point_id)
LEFT JOIN profile_note AS note USING (point_id)
LEFT JOIN recorded USING (point_id)
LEFT JOIN paced USING (point_id)
LEFT JOIN profile_latency AS latency
    ON point.point_id = latency.point_id AND latency.metric = 'tpot' AND latency.source = 'profiled'
LEFT JOIN point_value AS tpot
    ON point.point_id = tpot.point_id AND tpot.metric = 'tpot' AND tpot.stat = 'median'
LEFT JOIN point_value AS itl
    ON point.point_id = itl.point_id AND itl.metric = 'itl' AND itl.stat = 'median'
WHERE repeat.number = 0
ORDER BY point.point_id
