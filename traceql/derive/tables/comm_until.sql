-- One row per interval in which a device communicated: how long it had communicated before.
--
-- The communication of any span of time is the total until its end minus the total until its
-- start. The total until an instant is comm_ns of the last interval that began by then, and of that
-- interval the part before the instant, at most dur. overlap_ns counts only in overlapped intervals,
-- wait_ns only in those in which ranks wait.
-- @scope  run
-- @needs  device_part
-- @column rank           BIGINT   Rank.
-- @column device         BIGINT   Number of the device on its machine.
-- @column ts             BIGINT   Start of the interval, ns since the run's first event.
-- @column dur            BIGINT   Duration of the interval, ns.
-- @column part           VARCHAR  Part that the interval counts for (device_part.part).
-- @column comm_ns        BIGINT   Time before the interval in which a collective ran, ns.
-- @column overlap_ns     BIGINT   Time before the interval in which a collective and a compute kernel ran, ns.
-- @column wait_ns        BIGINT   Time before the interval of part exposed_wait, ns.
-- @column unmatched_ns   BIGINT   Time before the interval of part exposed_unmatched, ns.
SELECT
    rank,
    device,
    ts,
    dur,
    part,
    CAST(SUM(dur) OVER in_order - dur AS BIGINT) AS comm_ns,
    CAST(COALESCE(SUM(dur) FILTER (part = 'computing') OVER before, 0) AS BIGINT) AS overlap_ns,
    CAST(COALESCE(SUM(dur) FILTER (part = 'exposed_wait') OVER before, 0) AS BIGINT) AS wait_ns,
    CAST(COALESCE(SUM(dur) FILTER (part = 'exposed_unmatched') OVER before, 0) AS BIGINT) AS unmatched_ns
FROM device_part
WHERE is_overlapped OR part IN ('exposed_transfer', 'exposed_wait', 'exposed_unmatched')
WINDOW
    in_order AS (PARTITION BY rank, device ORDER BY ts ROWS UNBOUNDED PRECEDING),
    before AS (PARTITION BY rank, device ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
