-- A power limit, heat or a setting holds the clock of a GPU down, and what it computes takes longer.
--
-- Products of few tokens read weights and do not need the clock. So only steps of 512 tokens and more count.
-- @title   GPU clock held down
-- @group   hardware
-- @unless  gpu_shared
-- @query   gpu.telemetry
-- @record  Record with traceql capture run, which samples the clocks.
-- @source  a recording at 1,950 of 1,980 MHz: all products take what they take at 1,980
-- @needs   engine_step, rank_pace, run, telemetry, time_unit, wording
WITH gpu AS (
    SELECT
        run.run,
        entry ->> '$.uuid' AS uuid,
        TRY_CAST(entry ->> '$.max_sm_clock_mhz' AS BIGINT) AS most_mhz,
        TRY_CAST(entry ->> '$.power_limit_mw' AS BIGINT) AS limit_mw
    FROM run, UNNEST(from_json(run.document -> '$.gpus', '["JSON"]')) AS listed (entry)
),
-- Samples of GPUs at work: those of the recording, and of the ten seconds before it.
sampled AS (
    SELECT
        telemetry.rank, telemetry.gpu, telemetry.in_window, telemetry.sm_clock_mhz AS mhz,
        telemetry.throttle_reasons AS reasons, telemetry.power_mw,
        COALESCE(gpu.most_mhz, MAX(telemetry.sm_clock_mhz) OVER (PARTITION BY telemetry.run, telemetry.uuid)) AS most_mhz,
        gpu.limit_mw
    FROM telemetry
    INNER JOIN run USING (run)
    LEFT JOIN gpu ON telemetry.run = gpu.run AND telemetry.uuid = gpu.uuid
    WHERE
        telemetry.rank IS NOT NULL
        AND (
            telemetry.in_window
            OR (telemetry.utilization_pct >= 10 AND telemetry.ts BETWEEN run.window_ts - 10000000000 AND run.window_ts)
        )
        AND COALESCE(telemetry.throttle_reasons & 1, 0) = 0
),
per_gpu AS (
    SELECT
        rank,
        ANY_VALUE(gpu) AS gpu,
        MAX(most_mhz) AS most_mhz,
        COUNT(*) AS samples,
        COUNT(*) FILTER (in_window) AS in_window,
        COUNT(*) FILTER (mhz < 0.97 * most_mhz) AS low,
        COUNT(*) FILTER (mhz < 0.97 * most_mhz AND in_window) AS low_in_window,
        MIN(mhz) FILTER (in_window) AS least_mhz,
        AVG(mhz) FILTER (in_window) AS mean_mhz,
        -- 236: power limit, hardware slowdown, heat, power brake. 2: clocks that a user has set.
        BIT_OR(reasons & 238) FILTER (mhz < 0.97 * most_mhz) AS reasons,
        MAX(power_mw) / 1000 AS watts,
        MAX(limit_mw) / 1000 AS limit_watts
    FROM sampled
    GROUP BY rank
),
slow AS (
    SELECT *, low >= 10 AND low_in_window > 0 AS is_slow, 1 - mean_mhz / most_mhz AS missing
    FROM per_gpu
),
worst AS (
    SELECT
        COUNT(*) AS gpus,
        COALESCE(SUM(in_window), 0) AS in_window,
        COUNT(*) FILTER (is_slow) AS slow_gpus,
        MAX(low) AS low, MAX(low_in_window) AS low_in_window, MIN(least_mhz) AS least_mhz, MAX(most_mhz) AS most_mhz,
        arg_max(rank, (low_in_window, low)) AS rank
    FROM slow
),
batch AS (
    SELECT step_id FROM engine_step WHERE tokens >= 512
),
-- What a full clock would make shorter, and what other ranks wait for it.
claim AS (
    SELECT time_unit.unit, time_unit.ns * slow.missing AS ns
    FROM time_unit
    INNER JOIN slow ON time_unit.rank = slow.rank
    INNER JOIN batch ON time_unit.step_id = batch.step_id
    WHERE slow.is_slow AND time_unit.part = 'computing' AND time_unit.category IN ('gemm', 'moe', 'attention')
    UNION ALL
    SELECT time_unit.unit, time_unit.ns
    FROM time_unit
    INNER JOIN slow ON time_unit.root_rank = slow.rank AND time_unit.rank <> slow.rank
    INNER JOIN batch ON time_unit.root_step_id = batch.step_id
    WHERE slow.is_slow AND time_unit.is_waiting AND time_unit.cause = 'kernel'
),
claimed AS (
    SELECT
        list({'unit': unit, 'ns': CAST(ns AS BIGINT)} ORDER BY unit, ns) AS claims,
        (SELECT COUNT(*) FROM batch) AS large_steps
    FROM claim
),
judged AS (
    SELECT worst.*, slow.* EXCLUDE (rank, in_window, low, low_in_window, most_mhz, least_mhz), pace.pace
    FROM worst
    LEFT JOIN slow ON worst.rank = slow.rank
    LEFT JOIN rank_pace AS pace ON worst.rank = pace.rank
)
SELECT
    CASE
        WHEN judged.in_window = 0 THEN NULL
        WHEN judged.low_in_window = 0 THEN FALSE
        WHEN judged.slow_gpus = 0 THEN NULL
        WHEN judged.reasons <> 0 OR judged.pace > 1.02 THEN TRUE
    END AS is_confirmed,
    CASE
        WHEN judged.in_window = 0 THEN 'no clock was sampled while the profiler recorded: record with traceql capture run, for a second or more'
        WHEN judged.low_in_window = 0
            THEN format('the clocks stay at {:,} MHz and more, of {:,}', judged.least_mhz, judged.most_mhz)
        WHEN judged.slow_gpus = 0
            THEN format('{} samples are more than 3% below {:,} MHz, and fewer than ten prove nothing: record for longer', judged.low, judged.most_mhz)
        WHEN judged.pace IS NULL
            THEN format('the clock of rank {} is at {:,} MHz, no reason was sampled, and no other rank was compared', judged.rank, judged.least_mhz)
        ELSE format('the clock of rank {} is at {:,} MHz, but no reason was sampled, and its kernels take as long as those of other ranks',
            judged.rank, judged.least_mhz)
    END AS reason,
    format(
        'The {} of rank {} runs at {:,.0f} of {:,} MHz', wording.device, judged.rank, judged.mean_mhz, judged.most_mhz
    ) AS headline,
    [
        format(
            '{} of {} samples are more than 3% below the highest clock{}.', judged.low, judged.samples,
            CASE WHEN judged.slow_gpus > 1 THEN format(', and so on {} of {} GPUs', judged.slow_gpus, judged.gpus) ELSE '' END
        ),
        CASE
            WHEN judged.reasons & 4 <> 0 THEN format('NVML names the power limit: {:.0f} W at most{}.', judged.watts,
                COALESCE(format(', the limit is {:.0f} W', judged.limit_watts), ''))
            WHEN judged.reasons & 96 <> 0 THEN 'NVML names heat as the reason.'
            WHEN judged.reasons & 136 <> 0 THEN 'NVML names a slowdown by the hardware, such as a power brake.'
            WHEN judged.reasons & 2 <> 0 THEN 'NVML says that a user has set the clocks.'
        END,
        CASE WHEN judged.pace > 1.02 THEN format('Its kernels take {:.0f}% longer than those of other ranks.', 100 * (judged.pace - 1)) END
    ] AS evidence,
    CASE
        WHEN COALESCE(judged.reasons & 236, 0) = 0 AND judged.reasons & 2 <> 0 THEN format('nvidia-smi -i {} -rgc', judged.gpu)
        WHEN judged.reasons & 4 <> 0
            THEN format('nvidia-smi -q -d PERFORMANCE,POWER -i {}; raise the power limit (nvidia-smi -i {} -pl WATTS) if the card allows it', judged.gpu, judged.gpu)
        ELSE format('nvidia-smi -q -d PERFORMANCE,TEMPERATURE -i {} (then check its cooling)', judged.gpu)
    END AS remedy,
    CASE
        WHEN claimed.large_steps = 0 THEN 'What it costs: no step has 512 tokens or more, and smaller ones read weights, which does not need this clock.'
        ELSE 'Whether products of fewer than 512 tokens become longer too.'
    END AS unknowns,
    COALESCE(claimed.claims, []) AS claims, judged.low AS samples, judged.missing >= 0.03 AS is_notable, judged.rank,
    CASE
        WHEN judged.in_window > 0 AND judged.low_in_window = 0
            THEN format('clocks ({:,} of {:,} MHz)', judged.least_mhz, judged.most_mhz)
    END AS fine
FROM judged
CROSS JOIN claimed
CROSS JOIN wording
