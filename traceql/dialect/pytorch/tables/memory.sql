-- One row per allocator event.
-- @scope  rank
-- @needs  instant
-- @column rank         BIGINT   Rank that recorded it.
-- @column ts           BIGINT   Time, ns since trace.base_time_ns.
-- @column device       BIGINT   Device number on its host.
-- @column device_type  VARCHAR  cpu, cuda, hip or xpu; else PyTorch's number for it.
-- @column bytes_delta  BIGINT   Bytes allocated, negative where freed.
-- @column allocated    BIGINT   Bytes allocated on the device after the event.
-- @column reserved     BIGINT   Bytes that PyTorch's allocator holds on the device after the event.
-- @column address      UBIGINT  Address of the block.
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
ORDER BY rank, ts
