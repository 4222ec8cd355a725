-- One row per allocation or free of memory that the trace has.
--
-- PyTorch's profiler and Ascend's record those of PyTorch's allocator, Nsight Systems and rocprofv3
-- those of CUDA and ROCm: what the allocator holds, and what libraries take beside it. These do not say
-- how much was allocated before the recording, so their totals count from there.
-- @schema main
-- @scope  rank
-- @needs  allocator_event, device_allocation, hsa_allocation, npu_allocation
-- @column rank         BIGINT   Rank that recorded it.
-- @column ts           BIGINT   Time, ns since the run's first event.
-- @column device       BIGINT   Number of the device on its machine.
-- @column device_type  VARCHAR  cpu, cuda, hip, xpu or npu; else PyTorch's number for the type.
-- @column bytes_delta  BIGINT   Bytes allocated; negative if they were freed.
-- @column allocated    BIGINT   Bytes allocated on the device after the event; with Nsight Systems and rocprofv3, since the recording began.
-- @column reserved     BIGINT   Bytes that PyTorch's allocator holds on the device after the event, allocated or not; NULL if those of CUDA or ROCm were recorded.
-- @column address      UBIGINT  Address of the memory block.
FROM allocator_event
UNION ALL BY NAME
FROM device_allocation
UNION ALL BY NAME
FROM hsa_allocation
UNION ALL BY NAME
FROM npu_allocation
ORDER BY rank, ts
