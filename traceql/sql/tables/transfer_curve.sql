-- One row per GPU name, operation, number of ranks and range of sizes: how long communication takes there.
--
-- Between two known sizes, the duration is a straight line; below the smallest it is that of the
-- smallest. Beyond the largest, it grows as the bytes do if that size was measured; else, each further
-- byte takes as long as at the peak of the link. Where no size is known, a known cost of a small
-- operation (fixed_cost) comes before bytes at the peak.
-- @scope  run
-- @needs  collective, fixed_cost, kernel, measured_collective, peak, trace
-- @column device_name   VARCHAR  Name of the GPUs; NULL if unknown.
-- @column op            VARCHAR  Operation, as in collective; or peer_copy (see measured_collective).
-- @column ranks         BIGINT   Ranks that take part.
-- @column from_bytes    BIGINT   Smallest size of the whole buffer in the range, bytes.
-- @column to_bytes      BIGINT   First size after the range, bytes; NULL if there is none.
-- @column ns            DOUBLE   Duration at from_bytes, ns.
-- @column ns_per_byte   DOUBLE   What each further byte takes, ns; NULL if the peak of the link is unknown.
-- @column source        VARCHAR  measured (peaks.json), recorded (transfer time of the recording), recorded, with waiting (duration of its kernels, because the operations were not matched), or fixed cost.
-- @column is_measured   BOOLEAN  Whether sizes on both sides of the range are known.
WITH device AS (
    SELECT device_name, MAX(link_gbps) AS link_gbps, MAX(pair_gbps) AS pair_gbps
    FROM peak
    WHERE kind = 'data sheet'
    GROUP BY device_name
),
-- Measurements (the fastest launch of the fastest algorithm; of copies, between the fastest pair), and
-- the recording's own operations (the median).
operation AS (
    SELECT device_name, op, ranks, bytes, MIN(COALESCE(fastest_ns, kernel_ns, ns)) AS ns, 'measured' AS source
    FROM measured_collective
    WHERE op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'peer_copy')
    GROUP BY device_name, op, ranks, bytes
    UNION ALL
    SELECT
        trace.device_name, collective.op, collective.group_size, collective.bytes,
        median(COALESCE(collective.transfer_ns, kernel.dur)) AS ns,
        CASE WHEN COUNT(collective.transfer_ns) = COUNT(*) THEN 'recorded' ELSE 'recorded, with waiting' END AS source
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN trace ON collective.rank = trace.rank
    WHERE collective.bytes > 0 AND collective.group_size > 1
    GROUP BY trace.device_name, collective.op, collective.group_size, collective.bytes
),
known AS (
    SELECT device_name, op, ranks, bytes, ns, source
    FROM operation
    QUALIFY RANK() OVER (PARTITION BY device_name, op, ranks ORDER BY source <> 'measured') = 1
),
stated AS (
    SELECT device.device_name, fixed_cost.cost AS op, fixed_cost.ranks, 0 AS bytes, fixed_cost.ns, 'fixed cost' AS source
    FROM fixed_cost
    INNER JOIN device ON regexp_matches(device.device_name, fixed_cost.device)
    ANTI JOIN known
        ON device.device_name = known.device_name AND fixed_cost.cost = known.op AND fixed_cost.ranks = known.ranks
    WHERE fixed_cost.ranks IS NOT NULL
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY device.device_name, fixed_cost.cost, fixed_cost.ranks
        ORDER BY fixed_cost.position
    ) = 1
),
continued AS (
    SELECT
        point.*,
        CASE
            WHEN point.source = 'measured' THEN point.ns / point.bytes
            ELSE CASE point.op
                WHEN 'all_reduce' THEN 2.0 * (point.ranks - 1) / point.ranks
                WHEN 'all_gather' THEN 1.0 * (point.ranks - 1) / point.ranks
                WHEN 'reduce_scatter' THEN 1.0 * (point.ranks - 1) / point.ranks
                WHEN 'all_to_all' THEN 1.0 * (point.ranks - 1) / point.ranks
                ELSE 1.0
            END / COALESCE(device.pair_gbps * (point.ranks - 1), device.link_gbps)
        END AS ns_per_byte
    FROM (FROM known UNION ALL FROM stated) AS point
    LEFT JOIN device ON point.device_name = device.device_name
)
SELECT
    device_name, op, ranks,
    bytes AS from_bytes,
    LEAD(bytes) OVER larger AS to_bytes,
    ns,
    COALESCE((LEAD(ns) OVER larger - ns) / (LEAD(bytes) OVER larger - bytes), ns_per_byte) AS ns_per_byte,
    source,
    LEAD(bytes) OVER larger IS NOT NULL AS is_measured
FROM continued
WINDOW larger AS (PARTITION BY device_name, op, ranks ORDER BY bytes)
UNION ALL
SELECT device_name, op, ranks, 0, MIN(bytes), arg_min(ns, bytes), 0, arg_min(source, bytes), FALSE
FROM known
GROUP BY device_name, op, ranks
ORDER BY device_name, op, ranks, from_bytes
