-- One row per rank, device, step and reason for which its time goes by: what causes claim, each nanosecond in one row.
--
-- The rows of a device add up to its GPU span.
-- @kind   scratch
-- @scope  run
-- @needs  device_timeline, kernel, lost_interval, step
-- @column unit             BIGINT   Number of the unit, from 0.
-- @column part             VARCHAR  lost (idle, or waiting for another rank), computing, transfer, copy or unmatched (communication that was not matched), as in device_timeline.
-- @column rank             BIGINT   Rank.
-- @column device           BIGINT   Number of the device on its machine.
-- @column step_id          BIGINT   Step (device_timeline.step_id); NULL if unknown.
-- @column number           BIGINT   Number of that step (step.number).
-- @column cause            VARCHAR  Of lost time, as in lost_time.
-- @column is_waiting       BOOLEAN  Whether lost time is waiting for another rank.
-- @column is_between       BOOLEAN  Whether it lies before the first kernel of the step in which its cause lies; NULL if that step is unknown.
-- @column root_rank        BIGINT   Of lost time, as in lost_time; of other time, the rank.
-- @column root_step_id     BIGINT   Of lost time, as in lost_time; of other time, the step.
-- @column communicator_id  BIGINT   Communicator that waited (lost_time); NULL of other time.
-- @column role             VARCHAR  Of other than lost time, role of the kernels.
-- @column category         VARCHAR  Of other than lost time, their category.
-- @column symbol           VARCHAR  Of other than lost time, their symbol.
-- @column ns               BIGINT   Duration, ns.
-- @column intervals        BIGINT   Number of intervals.
-- @column longest_ts       BIGINT   Start of the longest interval, ns since the run's first event.
-- @column longest_ns       BIGINT   Duration of the longest interval, ns.
WITH piece AS (
    SELECT
        'lost' AS part,
        lost_interval.rank, lost_interval.device, lost_interval.step_id, lost_interval.cause,
        lost_interval.part = 'exposed_wait' AS is_waiting,
        lost_interval.ts < root.gpu_ts AS is_between,
        lost_interval.root_rank, lost_interval.root_step_id, lost_interval.communicator_id,
        NULL AS role, NULL AS category, NULL AS symbol, lost_interval.ts, lost_interval.dur
    FROM lost_interval
    LEFT JOIN step AS root ON lost_interval.root_step_id = root.step_id
    UNION ALL
    SELECT
        CASE device_timeline.part
            WHEN 'computing' THEN 'computing'
            WHEN 'exposed_transfer' THEN 'transfer'
            WHEN 'exposed_copy' THEN 'copy'
            ELSE 'unmatched'
        END,
        device_timeline.rank, device_timeline.device, device_timeline.step_id, NULL,
        FALSE, NULL, device_timeline.rank, device_timeline.step_id, NULL,
        kernel.role, kernel.category, kernel.symbol, device_timeline.ts, device_timeline.dur
    FROM device_timeline
    LEFT JOIN kernel ON device_timeline.kernel_id = kernel.id
    WHERE device_timeline.part NOT IN ('idle', 'exposed_wait')
),
summed AS (
    SELECT
        part, rank, device, step_id, cause, is_waiting, is_between, root_rank, root_step_id, communicator_id,
        role, category, symbol,
        CAST(SUM(dur) AS BIGINT) AS ns,
        COUNT(*) AS intervals,
        arg_max(ts, {'dur': dur, 'first': -ts}) AS longest_ts,
        MAX(dur) AS longest_ns
    FROM piece
    GROUP BY ALL
)
SELECT
    ROW_NUMBER() OVER (
        ORDER BY summed.rank, summed.device, summed.longest_ts, summed.part, summed.role, summed.category, summed.symbol
    ) - 1 AS unit,
    summed.part, summed.rank, summed.device, summed.step_id, step.number, summed.cause, summed.is_waiting,
    summed.is_between, summed.root_rank, summed.root_step_id, summed.communicator_id, summed.role, summed.category,
    summed.symbol, summed.ns, summed.intervals, summed.longest_ts, summed.longest_ns
FROM summed
LEFT JOIN step USING (step_id)
