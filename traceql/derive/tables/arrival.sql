-- One row per rank of a matched operation: when it came, and what its GPU did since the operation of the same group before.
-- @scope  run
-- @needs  collective, device_spent, kernel
-- @column match_id    BIGINT   Operation; as in collective.
-- @column rank        BIGINT   Rank.
-- @column kernel_id   BIGINT   Row of kernel.
-- @column step_id     BIGINT   Step of the kernel.
-- @column late_ns     BIGINT   Start after that of the first rank, by one clock, ns.
-- @column is_last     BOOLEAN  Whether the others waited for this rank.
-- @column waited_ns   BIGINT   Waiting of all ranks for this operation together, ns.
-- @column since_ns    BIGINT   From the end of the operation before to the start of this one, ns; the other times add up to it.
-- @column compute_ns  BIGINT   Of these, a kernel ran that neither communicates nor copies.
-- @column copy_ns     BIGINT   Of these, nothing but copies ran.
-- @column host_ns     BIGINT   Of these, the GPU had nothing because the host had issued nothing (gap causes host and sync).
-- @column comm_ns     BIGINT   Of these, only operations of other groups ran.
-- @column other_ns    BIGINT   Of these, the rest: gaps of other causes.
-- @column side_ns     BIGINT   Summed duration of computing kernels that began meanwhile on other streams than the one that computes most, ns.
-- @column is_first    BOOLEAN  Whether a rank has no operation of the group before it: what kept it is not recorded.
SELECT
    collective.match_id,
    kernel.rank,
    kernel.id AS kernel_id,
    kernel.step_id,
    collective.late_ns,
    -- Of two that came at the same time, one.
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
