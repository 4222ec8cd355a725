-- Allocator events that the profiler records as instants named [memory].

CREATE OR REPLACE TABLE memory AS
WITH event AS (
    SELECT
        rank,
        ts,
        json_extract_string(
            args,
            ['Device Id', 'Device Type', 'Bytes', 'Total Allocated', 'Total Reserved', 'Addr']
        ) AS arg
    FROM instant
    WHERE name = '[memory]'
)
SELECT
    rank,
    ts,
    TRY_CAST(arg[1] AS BIGINT) AS device,
    CASE arg[2]
        WHEN '0' THEN 'cpu' WHEN '1' THEN 'cuda' WHEN '6' THEN 'hip' WHEN '12' THEN 'xpu'
        ELSE arg[2]
    END AS device_type,
    TRY_CAST(arg[3] AS BIGINT) AS bytes_delta,
    TRY_CAST(arg[4] AS BIGINT) AS allocated,
    TRY_CAST(arg[5] AS BIGINT) AS reserved,
    TRY_CAST(arg[6] AS UBIGINT) AS address
FROM event
ORDER BY rank, ts;

COMMENT ON TABLE memory IS 'One row per allocator event.';
COMMENT ON COLUMN memory.rank IS 'Rank that recorded it.';
COMMENT ON COLUMN memory.ts IS 'Time, ns since trace.base_time_ns.';
COMMENT ON COLUMN memory.device IS 'Device number on its host.';
COMMENT ON COLUMN memory.device_type IS 'cpu, cuda, hip or xpu; else PyTorch''s number for it.';
COMMENT ON COLUMN memory.bytes_delta IS 'Bytes allocated, negative where freed.';
COMMENT ON COLUMN memory.allocated IS 'Bytes allocated on the device after the event.';
COMMENT ON COLUMN memory.reserved IS 'Bytes that PyTorch''s allocator holds on the device after the event.';
COMMENT ON COLUMN memory.address IS 'Address of the block.';
