-- Another program computes on a GPU of the run: launched kernels start late although nothing runs, and some take many times as long.
--
-- The GPU gives programs slices of time. So most kernels take as long as ever, and a few wait for a slice to end.
-- Kernels behind a wait that is recorded do not count. Those behind a call to the host, for a value in memory or, if no
-- event calls were recorded, for another stream might wait for that.
-- @title   GPU shared with another program
-- @group   hardware
-- @query   idle.gaps cause='launch' rank=rank
-- @record  Record launch calls (CPU activities) too.
-- @source  three recordings beside another program: 55 to 65 late starts of 1 to 3 ms, in one kernels of 5 to 70 times their median; in 20 others no start is more than 0.04 ms late
-- @needs   gap, kernel, kernel_use, launch, rank_pace, step, telemetry, time_unit, trace, wording
-- @empty_unless gap
WITH started AS (
    SELECT
        gap.rank, gap.device, gap.step_id, gap.ts, gap.dur,
        gap.ts + gap.dur - GREATEST(gap.ts, launch.ts + launch.dur) AS late_ns
    FROM gap
    INNER JOIN kernel ON gap.next_kernel_id = kernel.id
    INNER JOIN launch ON kernel.launch_id = launch.id
    WHERE gap.cause IN ('launch', 'host', 'sync')
),
late AS (
    SELECT * FROM started WHERE late_ns > 1000000
),
long AS (
    SELECT
        kernel.rank, kernel.device, kernel.step_id, kernel.role, kernel.category, kernel.symbol,
        kernel.dur - usual.median_ns AS ns,
        kernel.dur / usual.median_ns AS times
    FROM kernel_use AS usual
    INNER JOIN kernel
        ON
            usual.rank = kernel.rank AND usual.name = kernel.name
            AND usual.role = kernel.role AND usual.grid IS NOT DISTINCT FROM kernel.grid
    LEFT JOIN step ON kernel.step_id = step.step_id
    WHERE
        usual.category IN ('gemm', 'norm', 'elementwise', 'activation', 'rope', 'kv_cache')
        AND usual.role IS NOT NULL
        AND usual.kernels >= 10 AND usual.median_ns > 0
        AND usual.phase IS NOT DISTINCT FROM step.phase
        AND kernel.dur > 5 * usual.median_ns AND kernel.dur - usual.median_ns > 100000
),
per_rank AS (
    SELECT
        trace.rank,
        (SELECT COUNT(*) FROM started WHERE started.rank = trace.rank) AS starts,
        (SELECT COUNT(*) FROM late WHERE late.rank = trace.rank) AS late_starts,
        (SELECT COALESCE(SUM(late_ns), 0) FROM late WHERE late.rank = trace.rank) AS late_ns,
        (SELECT COUNT(*) FROM long WHERE long.rank = trace.rank) AS long_kernels,
        (SELECT COALESCE(SUM(ns), 0) FROM long WHERE long.rank = trace.rank) AS long_ns,
        (SELECT MIN(times) FROM long WHERE long.rank = trace.rank) AS least_times,
        (SELECT MAX(times) FROM long WHERE long.rank = trace.rank) AS most_times
    FROM trace
    WHERE trace.rank IS NOT NULL
),
worst AS (
    SELECT
        arg_max(rank, (late_starts, long_kernels)) FILTER (late_starts > 0) AS rank,
        COALESCE(SUM(starts), 0) AS starts,
        COALESCE(MAX(late_starts), 0) AS late_starts,
        arg_max(long_kernels, (late_starts, long_kernels)) AS long_kernels,
        arg_max(late_ns, (late_starts, long_kernels)) AS late_ns,
        arg_max(long_ns, (late_starts, long_kernels)) AS long_ns,
        arg_max(least_times, (late_starts, long_kernels)) AS least_times,
        arg_max(most_times, (late_starts, long_kernels)) AS most_times
    FROM per_rank
),
measured AS (
    SELECT
        AVG(telemetry.utilization_pct) FILTER (telemetry.rank = worst.rank) AS used_pct,
        AVG(telemetry.power_mw) FILTER (telemetry.rank = worst.rank) / 1000 AS watts,
        AVG(telemetry.power_mw) FILTER (telemetry.rank <> worst.rank) / 1000 AS other_watts,
        ANY_VALUE(telemetry.gpu) FILTER (telemetry.rank = worst.rank) AS gpu
    FROM telemetry
    CROSS JOIN worst
    WHERE telemetry.in_window AND telemetry.rank IS NOT NULL
),
own AS (
    SELECT
        100.0 * SUM(time_unit.ns) FILTER (time_unit.part <> 'lost' OR time_unit.is_waiting) / SUM(time_unit.ns) AS busy_pct
    FROM time_unit
    CROSS JOIN worst
    WHERE time_unit.rank = worst.rank
),
-- What a kernel can wait for on its stream without a record of how long.
other_wait AS (
    SELECT
        (SELECT COUNT(*) FROM launch WHERE regexp_matches(name, '^cu(da)?(LaunchHostFunc|StreamAddCallback|StreamWaitValue|StreamBatchMemOp)')) AS waits,
        (SELECT BOOL_AND(starts_with(name, 'cu')) FROM launch) AS is_cuda,
        (SELECT COUNT(*) FROM launch WHERE regexp_matches(name, '^cu(da)?(EventRecord|StreamWaitEvent)')) > 0
        OR (SELECT COUNT(DISTINCT kernel.stream) FROM kernel INNER JOIN worst ON kernel.rank = worst.rank) = 1 AS are_waits_known
),
-- The late starts, what the long kernels take beyond their medians, and what other ranks wait for them.
claim AS (
    SELECT time_unit.unit, SUM(late.late_ns) AS ns
    FROM late
    INNER JOIN worst ON late.rank = worst.rank
    INNER JOIN time_unit
        ON
            late.rank = time_unit.rank AND late.device = time_unit.device
            AND late.step_id IS NOT DISTINCT FROM time_unit.step_id
            AND time_unit.part = 'lost' AND time_unit.cause = 'launch' AND NOT time_unit.is_waiting
    GROUP BY time_unit.unit
    UNION ALL
    SELECT time_unit.unit, SUM(long.ns)
    FROM long
    INNER JOIN worst ON long.rank = worst.rank
    INNER JOIN time_unit
        ON
            long.rank = time_unit.rank AND long.device = time_unit.device
            AND long.step_id IS NOT DISTINCT FROM time_unit.step_id
            AND long.role = time_unit.role AND long.category = time_unit.category AND long.symbol = time_unit.symbol
            AND time_unit.part = 'computing'
    GROUP BY time_unit.unit
    UNION ALL
    SELECT time_unit.unit, time_unit.ns
    FROM time_unit
    INNER JOIN worst ON time_unit.root_rank = worst.rank AND time_unit.rank <> worst.rank
    WHERE time_unit.is_waiting AND time_unit.cause IN ('launch', 'kernel')
),
claimed AS (
    SELECT list({'unit': unit, 'ns': CAST(ns AS BIGINT)} ORDER BY unit, ns) AS claims FROM claim
),
example AS (
    SELECT arg_max(late.ts, late.late_ns) AS ts, arg_max(late.dur, late.late_ns) AS dur
    FROM late
    INNER JOIN worst ON late.rank = worst.rank
),
judged AS (
    SELECT
        *,
        late_starts >= 10 AS is_late,
        long_kernels > 0 OR COALESCE(used_pct - busy_pct > 25, FALSE) OR (is_cuda AND waits = 0 AND are_waits_known) AS is_certain
    FROM worst
    CROSS JOIN measured
    CROSS JOIN own
    CROSS JOIN other_wait
)
SELECT
    CASE
        WHEN judged.starts = 0 THEN NULL
        WHEN NOT judged.is_late THEN FALSE
        WHEN judged.is_certain THEN TRUE
    END AS is_confirmed,
    CASE
        WHEN judged.starts = 0 THEN 'no launch call was recorded, so late starts cannot be seen: record CPU activities'
        WHEN judged.late_starts = 0 THEN format('of {:,} kernels on a free {}, none starts more than 1 ms late', judged.starts, wording.device)
        WHEN NOT judged.is_late THEN format('only {} kernels start more than 1 ms late', judged.late_starts)
        WHEN NOT judged.is_certain
            THEN format(
                '{} kernels of rank {} start more than 1 ms late, perhaps behind a wait that was not recorded: record with NVML samples (traceql capture run)',
                judged.late_starts, judged.rank
            )
    END AS reason,
    format(
        'Another program uses the {} of rank {}: {} kernels start late', wording.device, judged.rank, judged.late_starts
    ) AS headline,
    [
        format(
            '{} launched kernels of rank {} start more than 1 ms late although the {} is free: {:.1f} ms in all.',
            judged.late_starts, judged.rank, wording.device, judged.late_ns / 1e6
        ),
        CASE WHEN judged.long_kernels > 0 THEN format(
            '{} kernels take {:.0f} to {:.0f} times as long as usual, {:.1f} ms more in all.',
            judged.long_kernels, judged.least_times, judged.most_times, judged.long_ns / 1e6
        ) END,
        CASE WHEN pace.pace BETWEEN 0.9 AND 1.05 THEN format(
            'The median kernel takes as long as on the other ranks ({:+.1f}%), so clocks are not the reason.', 100 * (pace.pace - 1)
        ) END,
        format(
            'NVML saw it in use for {:.0f}% of the time; kernels of this run ran for {:.0f}%.', judged.used_pct, judged.busy_pct
        ),
        CASE WHEN judged.watts > 1.2 * judged.other_watts
            THEN format('It drew {:.0f} W, the others {:.0f} W.', judged.watts, judged.other_watts)
        END
    ] AS evidence,
    format(
        'nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv{} (then move or stop that process)',
        COALESCE(format(' -i {}', judged.gpu), '')
    ) AS remedy,
    'Which program it is: the trace has only the kernels of this run.' AS unknowns,
    claimed.claims, judged.late_starts AS samples, judged.rank, example.ts, example.dur
FROM judged
CROSS JOIN claimed
CROSS JOIN example
CROSS JOIN wording
LEFT JOIN rank_pace AS pace ON judged.rank = pace.rank
