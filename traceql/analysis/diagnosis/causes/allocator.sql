-- Memory of the device is allocated or freed in the middle of the run, which stops the host, and sometimes the device.
-- @title   allocations of device memory
-- @group   host
-- @query   idle.host
-- @record  Record launch calls (CPU activities) too.
-- @source  PyTorch's notes on memory management: cudaMalloc and cudaFree block, and its allocator needs none once it is warm
-- @needs   engine_setting, launch, lost_pct, stall_claim, time_scale, wording
WITH allocation AS (
    SELECT
        stall_claim.*,
        lost_pct(stall_claim.ns, time_scale) AS pct,
        stall_claim.ns / 1e6 / (time_scale.devices * time_scale.steps) AS ms
    FROM time_scale
    LEFT JOIN stall_claim ON stall_claim.kind = 'allocation'
),
recorded AS (
    SELECT COUNT(*) AS launches FROM launch
),
setting AS (
    SELECT
        gpu_memory_utilization,
        kv_cache_bytes,
        COALESCE(contains(environment ->> '$.PYTORCH_CUDA_ALLOC_CONF', 'expandable_segments:True'), FALSE)
        OR COALESCE(contains(environment ->> '$.PYTORCH_ALLOC_CONF', 'expandable_segments:True'), FALSE) AS is_expandable
    FROM engine_setting
)
SELECT
    CASE
        WHEN recorded.launches = 0 THEN NULL
        ELSE COALESCE(allocation.calls >= 10 AND allocation.pct >= 1, FALSE)
    END AS is_confirmed,
    CASE
        WHEN recorded.launches = 0 THEN 'launch calls were not recorded'
        WHEN allocation.calls IS NULL THEN format('no {} is idle while memory is allocated, but in the first and last step', wording.device)
        WHEN allocation.calls < 10 THEN format('{} calls allocate or free memory while a {} is idle', allocation.calls, wording.device)
        WHEN allocation.pct < 1 THEN 'allocations cost less than 1% of a step'
    END AS reason,
    format('{} calls allocate or free memory while a {} is idle', allocation.calls, wording.device) AS headline,
    [
        format('They are in {} steps; most of the time is in {}.', allocation.steps, allocation.name),
        format('They cost {:.2f} ms a step, as recorded.', allocation.ms)
    ] AS evidence,
    CASE
        WHEN NOT setting.is_expandable THEN 'export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True'
        WHEN setting.kv_cache_bytes IS NOT NULL
            THEN format('--kv-cache-memory-bytes below {}, which leaves memory for the allocator', setting.kv_cache_bytes)
        ELSE format('--gpu-memory-utilization below {:.2f}, which leaves memory for the allocator', COALESCE(setting.gpu_memory_utilization, 0.9))
    END AS remedy,
    'Whether a longer run needs them too: the allocator keeps what it has got.' AS unknowns,
    allocation.claims, allocation.calls AS samples, allocation.rank, allocation.ts, allocation.dur
FROM allocation
CROSS JOIN setting
CROSS JOIN recorded
CROSS JOIN wording
