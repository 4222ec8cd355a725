-- One row per interval in which a device communicated: how long it had communicated before.
--
-- The communication of any span of time is the total until its end minus the total until its
-- start. The total until an instant is comm_ns of the last interval that began by then, and of that
-- interval the part before the instant, at most dur. overlap_ns counts only in overlapped intervals.
-- @kind   view
-- @scope  rank
-- @needs  device_state
-- @column rank           BIGINT   Rank.
-- @column device         BIGINT   Number of the device on its machine.
-- @column ts             BIGINT   Start of the interval, ns since the run's first event.
-- @column dur            BIGINT   Duration of the interval, ns.
-- @column is_overlapped  BOOLEAN  Whether a compute kernel ran in the interval.
-- @column comm_ns        BIGINT   Time before the interval in which a collective ran, ns.
-- @column overlap_ns     BIGINT   Time before the interval in which a collective and a compute kernel ran, ns.
SELECT
    rank,
    device,
    ts,
    dur,
    compute AS is_overlapped,
    CAST(SUM(dur) OVER in_order - dur AS BIGINT) AS comm_ns,
    CAST(SUM(dur * compute::BIGINT) OVER in_order - dur * compute::BIGINT AS BIGINT) AS overlap_ns
FROM device_state
WHERE comm
WINDOW in_order AS (PARTITION BY rank, device ORDER BY ts ROWS UNBOUNDED PRECEDING)
