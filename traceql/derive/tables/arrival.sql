-- One row per rank and operation that was matched on all its ranks: how late the rank began it, and what its GPU did since the previous operation of the communicator.
--
-- Use the view straggler to see only the late rank of each operation, with the cause of its delay.
-- @scope  run
-- @needs  collective, device_spent, kernel
-- @empty_unless collective
-- @column match_id    BIGINT   Operation; the same number as in collective.
-- @column rank        BIGINT   Rank.
-- @column kernel_id   BIGINT   Kernel of the operation on this rank (kernel.id).
-- @column step_id     BIGINT   Step of the kernel; NULL if unknown.
-- @column late_ns     BIGINT   How much later this rank began the operation than the earliest rank, after the clock correction, ns.
-- @column is_last     BOOLEAN  Whether this is the late rank, for which the others waited.
-- @column waited_ns   BIGINT   Wait time of all ranks together in this operation, ns; the same on all ranks.
-- @column since_ns    BIGINT   Time from the end of the previous operation of the communicator (or from the start of the rank's GPU span) to the start of this one, ns: the sum of compute_ns, copy_ns, host_ns, comm_ns and other_ns.
-- @column compute_ns  BIGINT   Part of since_ns in which a compute kernel ran, ns.
-- @column copy_ns     BIGINT   Part of since_ns in which only memory copies or sets ran, ns.
-- @column host_ns     BIGINT   Part of since_ns in which the GPU was idle because the host had launched nothing (gap causes host and sync), ns.
-- @column comm_ns     BIGINT   Part of since_ns in which operations of other communicators ran, but no compute kernel, ns.
-- @column other_ns    BIGINT   Part of since_ns in which the GPU was idle for another reason (all other gap causes), ns.
-- @column side_ns     BIGINT   Total duration of the compute kernels that began during since_ns on other streams than the one with the most compute time, ns.
-- @column is_first    BOOLEAN  Whether the operation is the first one of its communicator on any of its ranks, so that the trace does not show what delayed the late rank.
SELECT
    collective.match_id,
    kernel.rank,
    kernel.id AS kernel_id,
    kernel.step_id,
    collective.late_ns,
    -- If two ranks began last at the same time, the lower one counts.
    ROW_NUMBER() OVER (
        PARTITION BY collective.match_id ORDER BY collective.late_ns DESC, kernel.rank
    ) = 1 AND collective.late_ns > 0 AS is_last,
    (SUM(collective.wait_ns) OVER operation)::BIGINT AS waited_ns,
    kernel.ts - spent.since_ts AS since_ns,
    spent.compute_ns,
    spent.copy_ns,
    spent.host_ns,
    spent.comm_ns,
    spent.other_ns,
    spent.side_ns,
    BOOL_OR(spent.is_first) OVER operation AS is_first
FROM device_spent AS spent
INNER JOIN collective USING (kernel_id)
INNER JOIN kernel ON spent.kernel_id = kernel.id
WINDOW operation AS (PARTITION BY collective.match_id)
ORDER BY collective.match_id, kernel.rank
