-- GPUs of the run lost clock speed to throttling while the profiler recorded.
--
-- value is how far the mean SM clock of a GPU with a rank was below its highest clock in the run,
-- counting samples in which its clock was held down. With few samples it is never severe.
-- @title      throttling
-- @notable    1
-- @severe     3
-- @unit       % of SM clock lost
-- @threshold  samples = 10  Samples of each GPU, 100 ms apart, from which the finding may be severe.
-- @evidence   gpu.telemetry
-- @advice     Check the power cap and the cooling. Compare only runs with equal clocks.
-- @source     own: a few percent of clock are the noise between equal runs
-- @needs      finding_rule, run_window, telemetry, wording
WITH highest AS (
    SELECT run, gpu, MAX(sm_clock_mhz) AS mhz FROM telemetry GROUP BY run, gpu
),
own AS (
    SELECT
        telemetry.rank,
        COUNT(*) AS samples,
        COUNT(*) FILTER (telemetry.throttled) AS throttled,
        100.0 * SUM(highest.mhz - telemetry.sm_clock_mhz) FILTER (telemetry.throttled) / SUM(highest.mhz) AS lost_pct
    FROM telemetry
    INNER JOIN highest USING (run, gpu)
    WHERE telemetry.in_window AND telemetry.rank IS NOT NULL
    GROUP BY telemetry.run, telemetry.gpu, telemetry.rank
),
worst AS (
    SELECT * FROM own
    WHERE lost_pct IS NOT NULL
    ORDER BY lost_pct DESC, rank
    LIMIT 1
),
rule AS (
    SELECT thresholds FROM finding_rule WHERE finding = 'throttling'
)
SELECT
    worst.lost_pct AS value,
    NULL::BIGINT AS cost_ns,
    worst.lost_pct / 100 * run_window.ns AS saving_ns,
    'if all of the run scaled with the SM clock' AS assumption,
    format(
        'The {} of rank {} lost {:.1f}% of its SM clock to throttling: {:,} of its {:,} samples were throttled{}.',
        wording.device, worst.rank, worst.lost_pct, worst.throttled, worst.samples,
        CASE WHEN worst.samples < rule.thresholds['samples'] THEN ', too few to be sure' ELSE '' END
    ) AS finding,
    worst.samples < rule.thresholds['samples'] AS is_uncertain
FROM worst
CROSS JOIN rule
CROSS JOIN run_window
CROSS JOIN wording
