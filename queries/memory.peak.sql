-- One row per rank and device: peak of allocated memory, its time, and the operator behind it.
--
-- Use it to see how close a device came to running out of memory, and what allocated the most. It
-- needs a trace recorded with profile_memory, by nsys with --cuda-memory-usage=true, or by rocprofv3
-- with --memory-allocation-trace.
-- @column rank                 BIGINT   Rank.
-- @column device_type          VARCHAR  cpu, cuda, hip or xpu.
-- @column device               BIGINT   Number of the device on its machine.
-- @column peak_bytes           BIGINT   Most memory allocated at once, bytes.
-- @column ts                   BIGINT   Time of the peak, ns since the run's first event.
-- @column op                   VARCHAR  Innermost operator that ran at that time; NULL outside operators.
-- @column start_bytes          BIGINT   Memory allocated at the first event, bytes.
-- @column reserved_bytes       BIGINT   Most memory reserved by PyTorch's allocator, bytes.
-- @column events               BIGINT   Number of allocations and frees.
-- @key    rank device_type device peak_bytes op reserved_bytes start_bytes ts
-- @empty  the trace has no memory events; record with profile_memory (traceql capture run --memory)
-- @chart  bar x=peak_bytes y=rank
-- @title  Peak of allocated memory
WITH peak AS (
    SELECT
        rank, device_type, device,
        MAX(allocated) AS peak_bytes,
        arg_max(ts, allocated) AS ts,
        arg_min(allocated, ts) AS start_bytes,
        MAX(reserved) AS reserved_bytes,
        COUNT(*) AS events
    FROM memory
    GROUP BY rank, device_type, device
),
enclosing AS (
    SELECT peak.rank, peak.device_type, peak.device, arg_max(slice.name, slice.ts) AS op
    FROM peak
    INNER JOIN slice
        ON peak.rank = slice.rank
        AND slice.ts <= peak.ts
        AND slice.ts + slice.dur >= peak.ts
    INNER JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat
    WHERE event_kind.kind = 'operator'
    GROUP BY peak.rank, peak.device_type, peak.device
)
SELECT
    peak.rank, peak.device_type, peak.device, peak.peak_bytes, peak.ts, enclosing.op,
    peak.start_bytes, peak.reserved_bytes, peak.events
FROM peak
LEFT JOIN enclosing USING (rank, device_type, device)
ORDER BY peak.rank, peak.device_type, peak.device
