-- One row per communication operation of an Ascend profile whose planes tell how long it waited.
--
-- Waiting is the time of the operation in which no plane moves or reduces data. The peer that it
-- waited for longest is the late one. An operation over RDMA is not here: its planes only show when a
-- transfer was posted.
-- @scope  rank
-- @needs  classified_kernel, operation_part
-- @empty_unless operation_part
-- @column kernel_id   BIGINT  Kernel of the operation (classified_kernel.id).
-- @column wait_ns     BIGINT  Wait time, ns.
-- @column late_place  BIGINT  Number of the late rank in its communicator, from 0; NULL if no plane waited for a rank.
-- @column peer_ns     BIGINT  The longest wait for that rank on one plane, ns.
WITH measured AS (
    SELECT kernel_id
    FROM operation_part
    GROUP BY kernel_id
    HAVING NOT BOOL_OR(COALESCE(transport, '') LIKE '%RDMA%')
),
move AS (
    SELECT
        kernel_id,
        ts,
        end_ts,
        MAX(end_ts) OVER (
            PARTITION BY kernel_id ORDER BY ts, end_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ts
    FROM operation_part
    INNER JOIN measured USING (kernel_id)
    WHERE name NOT LIKE 'Notify%'
),
moved AS (
    SELECT
        kernel_id,
        CAST(SUM(GREATEST(end_ts - GREATEST(ts, COALESCE(before_ts, ts)), 0)) AS BIGINT) AS ns
    FROM move
    GROUP BY kernel_id
),
late AS (
    SELECT kernel_id, arg_max(peer, dur) AS place, MAX(dur) AS ns
    FROM operation_part
    WHERE name = 'Notify_Wait' AND peer IS NOT NULL AND dur > 0
    GROUP BY kernel_id
)
SELECT
    kernel.id AS kernel_id,
    kernel.dur - moved.ns AS wait_ns,
    late.place AS late_place,
    late.ns AS peer_ns
FROM classified_kernel AS kernel
INNER JOIN moved ON kernel.id = moved.kernel_id
LEFT JOIN late ON kernel.id = late.kernel_id
WHERE moved.ns > 0
