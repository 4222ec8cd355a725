-- One row per communication operation of an Ascend profile whose tasks on planes were recorded: the times of these tasks.
--
-- An operation consists of tasks that run on several planes. Waiting is the time of the operation in
-- which no plane moves or reduces data. The peer that it waited for longest is the late one. The wait
-- time of an operation over RDMA is unknown: its planes only show when a transfer was posted.
-- @scope  rank
-- @needs  classified_kernel, event_kind, slice, trace
-- @empty_unless trace WHERE dialect = 'ascend'
-- @column kernel_id   BIGINT   Kernel of the operation (classified_kernel.id).
-- @column wait_ns     BIGINT   Wait time, ns; NULL if unknown.
-- @column late_place  BIGINT   Number of the late rank in its communicator, from 0; NULL if no plane waited for a rank, or if wait_ns is.
-- @column peer_ns     BIGINT   The longest wait for that rank on one plane, ns; NULL if late_place is.
-- @column ranks       BIGINT   Number of ranks with which the planes talk, if they are numbered from 0 on; else NULL.
-- @column is_remote   BOOLEAN  Whether any plane uses another connection than SDMA.
WITH task AS MATERIALIZED (  -- so that the arguments of other profilers are not read
    SELECT slice.rank, slice.correlation, slice.name, slice.ts, slice.dur, slice.args
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    INNER JOIN trace ON slice.rank = trace.rank
    WHERE trace.dialect = 'ascend' AND event_kind.kind = 'other' AND slice.correlation IS NOT NULL
),
part AS (
    SELECT
        rank, correlation, name, ts, dur,
        json_extract_string(args, ['$."dst rank"', '$."transport type"']) AS args
    FROM task
    WHERE args LIKE '%"dst rank"%'
),
operation AS (
    SELECT kernel.id, kernel.rank, kernel.ts, kernel.ts + kernel.dur AS end_ts, slice.correlation
    FROM classified_kernel AS kernel
    INNER JOIN slice USING (id)
    WHERE kernel.category = 'collective'
),
part_of_operation AS MATERIALIZED (
    SELECT
        operation.id AS kernel_id,
        part.name, part.ts,
        LEAST(part.ts + GREATEST(part.dur, 0), operation.end_ts) AS end_ts,
        part.dur,
        -- The largest number of 32 bits stands for no rank.
        NULLIF(TRY_CAST(part.args[1] AS BIGINT), 4294967295) AS peer,
        part.args[2] AS transport
    FROM part
    INNER JOIN operation
        ON part.rank = operation.rank
        AND part.correlation = operation.correlation
        AND part.ts >= operation.ts
        AND part.ts <= operation.end_ts
),
peer AS (
    SELECT
        kernel_id,
        CASE WHEN COUNT(DISTINCT peer) = MAX(peer) + 1 THEN MAX(peer) + 1 END AS ranks,
        COALESCE(BOOL_OR(transport NOT IN ('SDMA', 'LOCAL')), FALSE) AS is_remote
    FROM part_of_operation
    GROUP BY kernel_id
),
measured AS (
    SELECT kernel_id
    FROM part_of_operation
    GROUP BY kernel_id
    HAVING NOT BOOL_OR(COALESCE(transport, '') LIKE '%RDMA%')
),
move AS (
    SELECT
        kernel_id, ts, end_ts,
        MAX(end_ts) OVER (
            PARTITION BY kernel_id ORDER BY ts, end_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ts
    FROM part_of_operation
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
    FROM part_of_operation
    WHERE name = 'Notify_Wait' AND peer IS NOT NULL AND dur > 0
    GROUP BY kernel_id
),
waited AS (
    SELECT
        operation.id AS kernel_id,
        operation.end_ts - operation.ts - moved.ns AS wait_ns,
        late.place AS late_place,
        late.ns AS peer_ns
    FROM operation
    INNER JOIN moved ON operation.id = moved.kernel_id
    LEFT JOIN late ON operation.id = late.kernel_id
    WHERE moved.ns > 0
)
SELECT peer.kernel_id, waited.wait_ns, waited.late_place, waited.peer_ns, peer.ranks, peer.is_remote
FROM peer
LEFT JOIN waited USING (kernel_id)
