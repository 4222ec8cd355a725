-- One row per event of PyTorch's memory allocator.
-- @kind   scratch
-- @scope  rank
-- @needs  instant
-- @column rank         BIGINT   Rank that recorded it.
-- @column ts           BIGINT   Time, ns since the run's first event.
-- @column device       BIGINT   Number of the device on its machine.
-- @column device_type  VARCHAR  cpu, cuda, hip or xpu; else PyTorch's number for the type.
-- @column bytes_delta  BIGINT   Bytes allocated; negative if they were freed.
-- @column allocated    BIGINT   Bytes allocated on the device after the event.
-- @column reserved     BIGINT   Bytes that the allocator holds on the device after the event, allocated or not.
-- @column address      UBIGINT  Address of the memory block.
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
