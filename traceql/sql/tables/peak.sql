-- One row per GPU name of the loaded traces and profiles, type of numbers and kind: what the GPU can reach at most.
--
-- Peaks of data sheets and measured ceilings are never mixed in a row. A GPU that is not listed has no row.
-- @schema main
-- @scope  run
-- @needs  data_sheet_peak, measured_collective, measured_device, profiled_launch, trace
-- @column device_name   VARCHAR  Name of the GPU (trace.device_name, profiled_launch.device_name).
-- @column dtype         VARCHAR  Type of the numbers that are multiplied: bf16 (also fp16), fp8, int8 or fp4 (mxfp4, nvfp4).
-- @column kind          VARCHAR  data sheet (also the values that a user gave with --peaks), or measured (the best of peaks.json).
-- @column tflops        DOUBLE   Dense peak, 1e12 floating-point operations per second; a multiply-add is two. NULL if unknown.
-- @column hbm_gbps      DOUBLE   Peak of the memory, reading and writing together, 1e9 bytes per second; NULL if unknown.
-- @column link_gbps     DOUBLE   Peak of the links to other GPUs in one direction, 1e9 bytes per second; measured, the best bus bandwidth. NULL if unknown.
-- @column pair_gbps     DOUBLE   Peak between two GPUs where each pair has a link of its own: n GPUs use (n-1) x pair_gbps; NULL where a pair has all of link_gbps, or if unknown.
-- @column l2_bytes      BIGINT   Size of the last cache before the memory, bytes; NULL if unknown.
-- @column kernel_ns     BIGINT   Duration of a kernel in a CUDA graph that has next to nothing to do, ns; NULL if unknown.
-- @column memory_bytes  BIGINT   Size of the memory, bytes; NULL if unknown.
-- @column source        VARCHAR  Where the values come from.
WITH device AS (
    SELECT device_name FROM trace WHERE device_name IS NOT NULL
    UNION
    SELECT device_name FROM profiled_launch WHERE device_name IS NOT NULL
),
stated AS (
    SELECT device.device_name, data_sheet_peak.*
    FROM device
    INNER JOIN data_sheet_peak ON regexp_matches(device.device_name, data_sheet_peak.device)
    QUALIFY data_sheet_peak.device = first_value(data_sheet_peak.device) OVER (
        PARTITION BY device.device_name, data_sheet_peak.own
        ORDER BY data_sheet_peak.position
    )
),
-- All but tflops are the same for all types of numbers.
listed AS (
    SELECT
        device_name,
        ANY_VALUE(hbm_gbps) AS hbm_gbps,
        ANY_VALUE(link_gbps) AS link_gbps,
        ANY_VALUE(pair_gbps) AS pair_gbps,
        ANY_VALUE(l2_bytes) AS l2_bytes,
        ANY_VALUE(kernel_ns) AS kernel_ns,
        ANY_VALUE(memory_bytes) AS memory_bytes,
        ANY_VALUE(source) AS source
    FROM stated
    WHERE NOT own
    GROUP BY device_name
),
-- What the user's row leaves empty is that of the list.
data_sheet AS (
    SELECT
        COALESCE(given.device_name, shipped.device_name) AS device_name,
        COALESCE(given.dtype, shipped.dtype) AS dtype,
        COALESCE(given.tflops, shipped.tflops) AS tflops,
        given.hbm_gbps, given.link_gbps, given.l2_bytes, given.kernel_ns, given.memory_bytes,
        given.source
    FROM (FROM stated WHERE own) AS given
    FULL JOIN (FROM stated WHERE NOT own) AS shipped
        ON given.device_name = shipped.device_name AND given.dtype = shipped.dtype
),
multiplied AS (
    SELECT
        device_name, found.dtype,
        MAX(
            CAST(2 AS DOUBLE) * found.m * found.k * found.n / COALESCE(found.fastest_ns, found.ns) / 1000
        ) AS tflops
    FROM (
        SELECT
            device_name,
            UNNEST(from_json(document -> '$.products', '[{
                "dtype": "VARCHAR", "m": "BIGINT", "k": "BIGINT", "n": "BIGINT", "ns": "DOUBLE", "fastest_ns": "DOUBLE"
            }]')) AS found
        FROM measured_device
    )
    GROUP BY device_name, found.dtype
),
moved AS (
    SELECT device_name, MAX(found.bytes / COALESCE(found.fastest_ns, found.ns)) AS gbps
    FROM (
        SELECT
            device_name,
            UNNEST(from_json(
                document -> '$.memory', '[{"bytes": "BIGINT", "ns": "DOUBLE", "fastest_ns": "DOUBLE"}]'
            )) AS found
        FROM measured_device
    )
    GROUP BY device_name
),
linked AS (
    SELECT device_name, MAX(busbw_gbps) AS gbps FROM measured_collective GROUP BY device_name
)
SELECT
    data_sheet.device_name, data_sheet.dtype,
    'data sheet' AS kind,
    data_sheet.tflops,
    COALESCE(data_sheet.hbm_gbps, listed.hbm_gbps) AS hbm_gbps,
    COALESCE(data_sheet.link_gbps, listed.link_gbps) AS link_gbps,
    CASE WHEN data_sheet.link_gbps IS NULL THEN listed.pair_gbps END AS pair_gbps,
    COALESCE(data_sheet.l2_bytes, listed.l2_bytes) AS l2_bytes,
    COALESCE(data_sheet.kernel_ns, listed.kernel_ns) AS kernel_ns,
    COALESCE(data_sheet.memory_bytes, listed.memory_bytes) AS memory_bytes,
    concat_ws('; what it leaves empty: ', data_sheet.source, listed.source) AS source
FROM data_sheet
LEFT JOIN listed USING (device_name)
UNION ALL
SELECT
    measured_device.device_name, multiplied.dtype,
    'measured' AS kind,
    multiplied.tflops,
    moved.gbps AS hbm_gbps,
    linked.gbps AS link_gbps,
    CAST(NULL AS DOUBLE) AS pair_gbps,
    measured_device.l2_bytes,
    CAST(round(measured_device.kernel_ns) AS BIGINT) AS kernel_ns,
    measured_device.memory_bytes,
    format('{}, measured {}', measured_device.path, measured_device.measured) AS source
FROM measured_device
INNER JOIN device USING (device_name)
INNER JOIN multiplied USING (device_name)
LEFT JOIN moved USING (device_name)
LEFT JOIN linked USING (device_name)
ORDER BY device_name, kind, dtype
