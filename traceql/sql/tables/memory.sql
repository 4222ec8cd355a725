-- One row per allocation or free of memory that the trace has.
--
-- PyTorch's profiler and Ascend's record those of PyTorch's allocator, Nsight Systems and rocprofv3
-- those of CUDA and ROCm: what the allocator holds, and what libraries take outside it. These do not
-- record how much was allocated before, so their totals count from the start of the recording.
-- @schema main
-- @scope  rank
-- @needs  instant, slice, trace
-- @column rank         BIGINT   Rank that recorded it.
-- @column ts           BIGINT   Time, ns since the run's first event.
-- @column device       BIGINT   Number of the device on its machine.
-- @column device_type  VARCHAR  cpu, cuda, hip, xpu or npu; else PyTorch's number for the type.
-- @column bytes_delta  BIGINT   Bytes allocated; negative if they were freed.
-- @column allocated    BIGINT   Bytes allocated on the device after the event; with Nsight Systems and rocprofv3, since the recording began.
-- @column reserved     BIGINT   Bytes that PyTorch's allocator holds on the device after the event, allocated or not; NULL if those of CUDA or ROCm were recorded.
-- @column address      UBIGINT  Address of the memory block.
WITH pytorch_event AS (
    SELECT
        rank, ts,
        json_extract_string(
            args,
            ['Device Id', 'Device Type', 'Bytes', 'Total Allocated', 'Total Reserved', 'Addr']
        ) AS arg
    FROM instant
    WHERE name = '[memory]'
),
-- Nsight Systems records the allocations of all libraries of the process.
cuda_event AS (
    SELECT
        rank, ts,
        pid AS device,
        -- ENUM_CUDA_MEM_KIND: 0 is pageable and 1 pinned memory of the host.
        CASE WHEN json_extract_string(args, '$.memKind') IN ('0', '1') THEN 'cpu' ELSE 'cuda' END AS device_type,
        TRY_CAST(json_extract_string(args, '$.bytes') AS BIGINT)
        * CASE name WHEN 'CUDA free' THEN -1 ELSE 1 END AS bytes_delta,
        TRY_CAST(json_extract_string(args, '$.address') AS UBIGINT) AS address
    FROM instant
    WHERE name IN ('CUDA allocation', 'CUDA free')
),
-- Of a free, rocprofv3 has only the address: size and device are those of the allocation before it.
rocm_call AS MATERIALIZED (
    SELECT
        slice.id, slice.rank,
        slice.ts + slice.dur AS ts,
        slice.name LIKE '%ALLOCATE' AS is_allocation,
        TRY_CAST(json_extract_string(slice.args, '$.device') AS BIGINT) AS device,
        json_extract_string(slice.args, '$.device_type') AS device_type,
        TRY_CAST(json_extract_string(slice.args, '$.bytes') AS BIGINT) AS bytes,
        TRY_CAST(json_extract_string(slice.args, '$.address') AS UBIGINT) AS address
    FROM slice
    WHERE
        slice.rank IN (SELECT rank FROM trace WHERE dialect = 'rocprof')
        AND slice.name IN (
            'MEMORY_ALLOCATION_ALLOCATE',
            'MEMORY_ALLOCATION_VMEM_ALLOCATE',
            'MEMORY_ALLOCATION_FREE',
            'MEMORY_ALLOCATION_VMEM_FREE'
        )
),
rocm_allocation AS (
    FROM rocm_call
    WHERE is_allocation AND address IS NOT NULL
),
rocm_event AS (
    SELECT rank, id, ts, device, device_type, bytes AS bytes_delta, address FROM rocm_call WHERE is_allocation
    UNION ALL
    SELECT
        free.rank, free.id, free.ts, allocation.device, allocation.device_type, -allocation.bytes, free.address
    FROM rocm_call AS free
    ASOF INNER JOIN rocm_allocation AS allocation
        ON free.rank = allocation.rank
        AND free.address = allocation.address
        AND free.ts >= allocation.ts
    WHERE NOT free.is_allocation
),
event AS (
    SELECT
        rank, ts,
        TRY_CAST(arg[1] AS BIGINT) AS device,
        CASE arg[2]
            WHEN '0' THEN 'cpu' WHEN '1' THEN 'cuda' WHEN '6' THEN 'hip' WHEN '12' THEN 'xpu'
            ELSE arg[2]
        END AS device_type,
        TRY_CAST(arg[3] AS BIGINT) AS bytes_delta,
        TRY_CAST(arg[4] AS BIGINT) AS allocated,
        TRY_CAST(arg[5] AS BIGINT) AS reserved,
        TRY_CAST(arg[6] AS UBIGINT) AS address
    FROM pytorch_event
    UNION ALL BY NAME
    SELECT
        *,
        CAST(SUM(bytes_delta) OVER (
            PARTITION BY rank, device, device_type ORDER BY ts, address
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS BIGINT) AS allocated
    FROM cuda_event
    UNION ALL BY NAME
    SELECT
        * EXCLUDE (id),
        CAST(SUM(bytes_delta) OVER (
            PARTITION BY rank, device, device_type ORDER BY ts, id
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS BIGINT) AS allocated
    FROM rocm_event
    UNION ALL BY NAME
    -- Of torch_npu's allocator.
    SELECT
        rank, ts,
        pid AS device,
        'npu' AS device_type,
        TRY_CAST(args ->> '$.bytes' AS BIGINT) * CASE name WHEN 'NPU release' THEN -1 ELSE 1 END AS bytes_delta,
        TRY_CAST(args ->> '$.allocated' AS BIGINT) AS allocated,
        TRY_CAST(args ->> '$.reserved' AS BIGINT) AS reserved
    FROM instant
    WHERE name IN ('NPU allocation', 'NPU release')
)
SELECT *
FROM event
WHERE rank IS NOT NULL
ORDER BY rank, ts
