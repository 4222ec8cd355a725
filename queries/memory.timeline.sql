-- One row per rank, device and time bucket with any allocation or free: allocated memory.
--
-- Use it to see how memory grows over time. It needs a trace recorded with profile_memory, or
-- by nsys with --cuda-memory-usage=true or rocprofv3 with --memory-allocation-trace.
-- @param  buckets              INTEGER = 200   Number of time buckets per rank.
-- @param  rank                 BIGINT  = NULL  Only this rank; all ranks by default.
-- @column rank                 BIGINT   Rank.
-- @column device_type          VARCHAR  cpu, cuda, hip or xpu.
-- @column device               BIGINT   Number of the device on its machine.
-- @column ts                   BIGINT   Start of the time bucket, ns since the run's first event.
-- @column events               BIGINT   Number of allocations and frees.
-- @column max_allocated_bytes  BIGINT   Most memory allocated, bytes.
-- @column last_allocated_bytes BIGINT   Memory allocated at the last event of the bucket, bytes.
-- @column max_reserved_bytes   BIGINT   Most memory reserved by PyTorch's allocator, bytes.
-- @key    rank device ts max_allocated_bytes last_allocated_bytes max_reserved_bytes events
-- @empty  the trace has no memory events; record with profile_memory (traceql capture run --memory)
-- @chart  line x=ts y=max_allocated_bytes color=rank
-- @title  Memory allocated over time
WITH chosen AS (
    SELECT * FROM memory WHERE $rank::BIGINT IS NULL OR rank = $rank::BIGINT
),
span AS (
    SELECT
        rank,
        MIN(ts) AS ts,
        GREATEST(1, CAST(CEIL((MAX(ts) - MIN(ts)) / $buckets::INTEGER) AS BIGINT)) AS width
    FROM chosen
    GROUP BY rank
)
SELECT
    chosen.rank, chosen.device_type, chosen.device,
    span.ts + (chosen.ts - span.ts) // span.width * span.width AS ts,
    COUNT(*) AS events,
    MAX(chosen.allocated) AS max_allocated_bytes,
    arg_max(chosen.allocated, chosen.ts) AS last_allocated_bytes,
    MAX(chosen.reserved) AS max_reserved_bytes
FROM chosen
INNER JOIN span USING (rank)
GROUP BY ALL
ORDER BY chosen.rank, chosen.device_type, chosen.device, ts
