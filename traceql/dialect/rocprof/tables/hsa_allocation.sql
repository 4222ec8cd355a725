-- One row per allocation or free of memory of a GPU or of the host, as rocprofv3 recorded it.
--
-- A free tells only the address: its size and its device are those of the allocation before it.
-- @kind   scratch
-- @scope  rank
-- @needs  slice, trace
-- @empty_unless trace WHERE dialect = 'rocprof'
-- @column rank         BIGINT   Rank that recorded it.
-- @column ts           BIGINT   Time, ns since the run's first event.
-- @column device       BIGINT   Number of the device on its machine; NULL for memory of the host.
-- @column device_type  VARCHAR  hip, or cpu for memory of the host.
-- @column bytes_delta  BIGINT   Bytes allocated; negative if they were freed.
-- @column allocated    BIGINT   Bytes allocated after the event, since the recording began.
-- @column reserved     BIGINT   NULL: the runtime knows nothing of allocators.
-- @column address      UBIGINT  Address of the memory block.
WITH told AS (
    SELECT
        slice.id,
        slice.rank,
        slice.ts + slice.dur AS ts,
        slice.name LIKE '%ALLOCATE' AS is_allocation,
        TRY_CAST(json_extract_string(slice.args, '$.device') AS BIGINT) AS device,
        json_extract_string(slice.args, '$.device_type') AS device_type,
        TRY_CAST(json_extract_string(slice.args, '$.bytes') AS BIGINT) AS bytes,
        TRY_CAST(json_extract_string(slice.args, '$.address') AS UBIGINT) AS address
    FROM slice
    INNER JOIN trace ON slice.rank = trace.rank
    WHERE
        trace.dialect = 'rocprof'
        AND slice.name IN (
            'MEMORY_ALLOCATION_ALLOCATE',
            'MEMORY_ALLOCATION_VMEM_ALLOCATE',
            'MEMORY_ALLOCATION_FREE',
            'MEMORY_ALLOCATION_VMEM_FREE'
        )
),
allocation AS (
    FROM told
    WHERE is_allocation AND address IS NOT NULL
),
freed AS (
    SELECT free.*, allocation.device AS of_device, allocation.device_type AS of_type, allocation.bytes AS of_bytes
    FROM told AS free
    ASOF INNER JOIN allocation
        ON free.rank = allocation.rank
        AND free.address = allocation.address
        AND free.ts >= allocation.ts
    WHERE NOT free.is_allocation
),
event AS (
    SELECT rank, id, ts, device, device_type, bytes AS bytes_delta, address FROM told WHERE is_allocation
    UNION ALL BY NAME
    SELECT rank, id, ts, of_device AS device, of_type AS device_type, -of_bytes AS bytes_delta, address
    FROM freed
)
SELECT
    rank,
    ts,
    device,
    device_type,
    bytes_delta,
    CAST(SUM(bytes_delta) OVER (
        PARTITION BY rank, device, device_type ORDER BY ts, id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS BIGINT) AS allocated,
    CAST(NULL AS BIGINT) AS reserved,
    address
FROM event
