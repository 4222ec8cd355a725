-- One row per task on a plane of an Ascend profile: a part of a communication operation.
--
-- The connection of a part is that of its operation.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, event_kind, slice, trace
-- @empty_unless trace WHERE dialect = 'ascend'
-- @column kernel_id  BIGINT   The operation (classified_kernel.id).
-- @column name       VARCHAR  What the part does, such as Notify_Wait or Memcpy.
-- @column ts         BIGINT   Start, ns since the run's first event.
-- @column end_ts     BIGINT   End, at most that of the operation, ns since the run's first event.
-- @column dur        BIGINT   Duration, ns.
-- @column peer       BIGINT   Number of the other rank in its communicator; NULL if the part has none.
-- @column bytes      BIGINT   Bytes moved; NULL if unknown.
-- @column transport  VARCHAR  SDMA, RDMA, LOCAL ...
WITH task AS MATERIALIZED (  -- so that the arguments of other profilers are not read
    SELECT slice.rank, slice.correlation, slice.name, slice.ts, slice.dur, slice.args
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    INNER JOIN trace ON slice.rank = trace.rank
    WHERE trace.dialect = 'ascend' AND event_kind.kind = 'other' AND slice.correlation IS NOT NULL
),
part AS (
    SELECT
        rank,
        correlation,
        name,
        ts,
        dur,
        json_extract_string(args, ['$."dst rank"', '$."size(Byte)"', '$."transport type"']) AS args
    FROM task
    WHERE args LIKE '%"dst rank"%'
),
operation AS (
    SELECT kernel.id, kernel.rank, kernel.ts, kernel.ts + kernel.dur AS end_ts, slice.correlation
    FROM classified_kernel AS kernel
    INNER JOIN slice USING (id)
    WHERE kernel.category = 'collective'
)
SELECT
    operation.id AS kernel_id,
    part.name,
    part.ts,
    LEAST(part.ts + GREATEST(part.dur, 0), operation.end_ts) AS end_ts,
    part.dur,
    -- The largest number of 32 bits stands for no rank.
    NULLIF(TRY_CAST(part.args[1] AS BIGINT), 4294967295) AS peer,
    TRY_CAST(part.args[2] AS BIGINT) AS bytes,
    part.args[3] AS transport
FROM part
INNER JOIN operation
    ON part.rank = operation.rank
    AND part.correlation = operation.correlation
    AND part.ts >= operation.ts
    AND part.ts <= operation.end_ts
