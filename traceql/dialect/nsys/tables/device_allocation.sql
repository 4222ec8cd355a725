-- One row per allocation or free of CUDA memory, by any library of the process.
-- @kind   scratch
-- @scope  rank
-- @needs  instant
-- @column rank         BIGINT   Rank that recorded it.
-- @column ts           BIGINT   Time, ns since the run's first event.
-- @column device       BIGINT   Number of the device on its machine.
-- @column device_type  VARCHAR  cuda, or cpu for pinned memory of the host.
-- @column bytes_delta  BIGINT   Bytes allocated; negative if they were freed.
-- @column allocated    BIGINT   Bytes allocated after the event, since the recording began.
-- @column reserved     BIGINT   NULL: CUDA knows nothing of allocators.
-- @column address      UBIGINT  Address of the memory block.
WITH event AS (
    SELECT
        instant.rank,
        instant.ts,
        instant.pid AS device,
        -- ENUM_CUDA_MEM_KIND: 0 is pageable and 1 pinned memory of the host.
        CASE WHEN json_extract_string(instant.args, '$.memKind') IN ('0', '1') THEN 'cpu' ELSE 'cuda' END
            AS device_type,
        TRY_CAST(json_extract_string(instant.args, '$.bytes') AS BIGINT)
        * CASE instant.name WHEN 'CUDA free' THEN -1 ELSE 1 END AS bytes_delta,
        TRY_CAST(json_extract_string(instant.args, '$.address') AS UBIGINT) AS address
    FROM instant
    WHERE instant.name IN ('CUDA allocation', 'CUDA free')
)
SELECT
    rank,
    ts,
    device,
    device_type,
    bytes_delta,
    CAST(SUM(bytes_delta) OVER (
        PARTITION BY rank, device, device_type ORDER BY ts, address
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS BIGINT) AS allocated,
    CAST(NULL AS BIGINT) AS reserved,
    address
FROM event
