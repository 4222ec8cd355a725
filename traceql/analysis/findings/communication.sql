-- Exposed transfers take a large part of the run.
--
-- Waiting for late ranks is left out, and so are operations that were not matched, of which waiting may
-- be a part: finding unmatched operations reports these.
-- @title      communication
-- @notable    15
-- @severe     40
-- @unit       % of the run
-- @evidence   comm.exposed by='phase'
-- @advice     Overlap communication with compute, or use larger batches, or a fused or one-shot all-reduce.
-- @source     rule of thumb: communication should take less than 30% of a step; half of it is worth a look
-- @needs      collective, collective_exposure, communicator, kernel, rank_window, run_window, step
WITH moving AS (
    SELECT
        SUM(transfer_ns) AS all_ns,
        SUM(transfer_ns) / COUNT(*) AS ns,
        100.0 * SUM(overlap_ns) / SUM(transfer_ns + overlap_ns) AS overlap_pct
    FROM rank_window
    HAVING SUM(transfer_ns) > 0
),
operation AS (
    SELECT kernel.rank, kernel.role, kernel.ts, kernel.dur, step.phase, communicator.scope,
        exposed.exposed_transfer_ns AS ns
    FROM collective_exposure AS exposed
    INNER JOIN kernel ON exposed.kernel_id = kernel.id
    INNER JOIN collective USING (kernel_id)
    INNER JOIN communicator USING (communicator_id)
    LEFT JOIN step USING (step_id)
    WHERE exposed.exposed_transfer_ns > 0
),
total AS (
    SELECT SUM(ns) AS ns, SUM(ns) FILTER (scope = 'tensor') / SUM(ns) AS tensor_share FROM operation
),
most AS (
    SELECT arg_max(phase, ns) AS phase, MAX(ns) AS ns
    FROM (SELECT phase, SUM(ns) AS ns FROM operation WHERE phase IS NOT NULL GROUP BY phase)
),
named AS (
    SELECT array_to_string(list(format('{} ({:.0f}%)', role, 100.0 * role_ns / total.ns) ORDER BY role_ns DESC, role)[:2], ' and ')
        AS roles
    FROM (SELECT role, SUM(ns) AS role_ns FROM operation WHERE role IS NOT NULL GROUP BY role)
    CROSS JOIN total
),
largest AS (
    SELECT rank, ts, dur FROM operation ORDER BY ns DESC, rank, ts LIMIT 1
)
SELECT
    100.0 * moving.ns / run_window.ns AS value,
    moving.all_ns AS cost_ns,
    format(
        'Communication that no compute hides takes {:.1f} ms per rank, {:.0f}% of the run, without waiting for late ranks; {} is hidden behind compute.{}{}{}',
        moving.ns / 1e6, 100.0 * moving.ns / run_window.ns,
        CASE WHEN moving.overlap_pct < 0.5 THEN 'none' ELSE format('{:.0f}%', moving.overlap_pct) END,
        CASE WHEN named.roles <> '' THEN format(' Most of it is {}.', named.roles) ELSE '' END,
        CASE WHEN most.phase IS NOT NULL
            THEN format(' {}{} steps have {:.0f}% of it.', upper(most.phase[1]), most.phase[2:], 100.0 * most.ns / total.ns)
        ELSE '' END,
        CASE WHEN run_window.unmatched_ns > 0
            THEN format(' Operations that were not matched take {:.1f} ms more.', run_window.unmatched_ns / 1e6)
        ELSE '' END
    ) AS finding,
    CASE WHEN total.tensor_share > 0.5
        THEN 'Use fewer tensor-parallel ranks, or data parallelism, if the model fits into memory.'
    END AS advice,
    largest.rank, largest.ts, largest.dur
FROM moving
CROSS JOIN run_window
CROSS JOIN named
CROSS JOIN most
CROSS JOIN total
CROSS JOIN largest
