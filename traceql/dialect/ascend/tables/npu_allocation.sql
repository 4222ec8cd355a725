-- One row per allocation or release of torch_npu's allocator.
-- @kind   scratch
-- @scope  rank
-- @needs  instant
-- @column rank         BIGINT   Rank that recorded it.
-- @column ts           BIGINT   Time, ns since the run's first event.
-- @column device       BIGINT   Number of the device on its machine.
-- @column device_type  VARCHAR  npu.
-- @column bytes_delta  BIGINT   Bytes allocated; negative if they were released.
-- @column allocated    BIGINT   Bytes allocated on the device after the event.
-- @column reserved     BIGINT   Bytes that the allocator holds on the device after the event, allocated or not.
-- @column address      UBIGINT  NULL: the profiler does not tell.
SELECT
    rank,
    ts,
    pid AS device,
    'npu' AS device_type,
    TRY_CAST(args ->> '$.bytes' AS BIGINT) * CASE name WHEN 'NPU release' THEN -1 ELSE 1 END AS bytes_delta,
    TRY_CAST(args ->> '$.allocated' AS BIGINT) AS allocated,
    TRY_CAST(args ->> '$.reserved' AS BIGINT) AS reserved,
    CAST(NULL AS UBIGINT) AS address
FROM instant
WHERE name IN ('NPU allocation', 'NPU release')
