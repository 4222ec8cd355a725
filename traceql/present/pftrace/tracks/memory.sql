-- Samples of the GPU memory that PyTorch's allocator has allocated and that it has reserved.
WITH sample AS (
    SELECT rank, device, ts, LAST(allocated ORDER BY ts) AS allocated, LAST(reserved ORDER BY ts) AS reserved
    FROM memory
    WHERE device_type <> 'cpu'
    GROUP BY rank, device, ts
)
SELECT rank, 'Memory allocated · GPU ' || device AS track, ts, allocated AS value, 'bytes' AS unit
FROM sample
WHERE allocated IS NOT NULL
UNION ALL
SELECT rank, 'Memory reserved · GPU ' || device, ts, reserved, 'bytes'
FROM sample
WHERE reserved IS NOT NULL
ORDER BY rank, track, ts
