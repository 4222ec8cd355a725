-- One row per interval of a device: the part that its time counts for, and the step it belongs to.
--
-- The intervals of a device cover the GPU span of its rank without overlap, so that each nanosecond
-- counts once. If several activities run, computing comes first, then communication, then copies.
-- Waiting is time in which communication kernels run and all of them wait for another rank.
-- @scope  run
-- @needs  gap, kernel, part_interval, step
-- @column rank           BIGINT   Rank.
-- @column device         BIGINT   Number of the device on its machine.
-- @column ts             BIGINT   Start, ns since the run's first event.
-- @column dur            BIGINT   Duration, ns.
-- @column part           VARCHAR  computing (a compute kernel runs), exposed_transfer (a collective transfers data), exposed_wait (collectives wait for a late rank), exposed_unmatched (collectives run that were not matched on all their ranks: whether they wait is unknown), exposed_copy (only memory copies or sets run) or idle (nothing runs).
-- @column cause          VARCHAR  Why the device is idle (gap.cause); NULL in all other parts.
-- @column is_overlapped  BOOLEAN  Whether a compute kernel and a collective run: overlapped communication, part computing.
-- @column step_id        BIGINT   Step of the kernel that began last; of idle time, the step of the kernel that ends it (gap.step_id). NULL if that is unknown.
-- @column phase          VARCHAR  Phase of that step; NULL if it is unknown.
-- @column waiting_id     BIGINT   Operation that waits (kernel.id), if the part is exposed_wait.
SELECT
    part_interval.rank,
    part_interval.device,
    part_interval.ts,
    part_interval.dur,
    part_interval.part,
    gap.cause,
    part_interval.is_overlapped,
    step.step_id,
    step.phase,
    CASE WHEN part_interval.part = 'exposed_wait' THEN part_interval.running_id END AS waiting_id
FROM part_interval
LEFT JOIN gap
    ON part_interval.part = 'idle'
    AND part_interval.rank = gap.rank
    AND part_interval.device = gap.device
    AND part_interval.ts = gap.ts
LEFT JOIN kernel ON part_interval.begun_id = kernel.id AND part_interval.part <> 'idle'
LEFT JOIN step ON COALESCE(gap.step_id, kernel.step_id) = step.step_id
ORDER BY part_interval.rank, part_interval.device, part_interval.ts
