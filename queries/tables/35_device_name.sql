-- The name of the device that each rank ran on, from its file's deviceProperties.

UPDATE trace
SET device_name = found.device_name
FROM (
    WITH device AS (
        SELECT rank, UNNEST(json_extract(metadata, '$.deviceProperties[*]')) AS property
        FROM trace
    ),
    used AS (
        SELECT rank, MIN(device) AS device FROM kernel GROUP BY rank
    )
    SELECT used.rank, ANY_VALUE(device.property ->> '$.name') AS device_name
    FROM used
    INNER JOIN device
        ON used.rank = device.rank
        AND TRY_CAST(device.property ->> '$.id' AS BIGINT) = used.device
    GROUP BY used.rank
) AS found
WHERE trace.rank = found.rank;
