-- One row per rank: its GPU and host, and how the time of its GPU is divided.
-- @column rank                  BIGINT   Rank.
-- @column host                  VARCHAR  Name of its host; NULL if unknown.
-- @column gpu                   VARCHAR  Identifier of its GPU; NULL if unknown.
-- @column device_name           VARCHAR  Kind of its GPU; NULL if the file does not have it.
-- @column pp_rank               BIGINT   Its pipeline stage, from 0; 0 if unknown.
-- @column path                  VARCHAR  Its trace file, when it was loaded.
-- @column kernels               BIGINT   GPU activities.
-- @column steps                 BIGINT   Steps with kernels.
-- @column window_ns             BIGINT   Spans of the activities of its GPUs, ns: the sum of the next six columns.
-- @column computing_ns          BIGINT   Time in which a compute kernel ran, ns.
-- @column exposed_transfer_ns   BIGINT   Time in which collectives transferred data and no compute kernel ran, ns.
-- @column exposed_wait_ns       BIGINT   Time in which collectives only waited for a late rank, ns.
-- @column exposed_unmatched_ns  BIGINT   Time in operations that were not matched, so that waiting is unknown, ns.
-- @column exposed_copy_ns       BIGINT   Time in which only copies ran, ns.
-- @column idle_ns               BIGINT   Time in which nothing ran, ns.
-- @column caused_wait_ns        BIGINT   Wait time of other ranks in operations for which this rank was the late one, ns.
-- @column idle_host_ns          BIGINT   Part of idle_ns in which the host had launched nothing, ns.
WITH described AS (
    SELECT
        integer_at(one.value, '$.rank') AS rank,
        ANY_VALUE(COALESCE(text_at(one.value, '$.host'), text_at(run.document, '$.host.name'))) AS host,
        ANY_VALUE(text_at(one.value, '$.device_uuid')) AS gpu
    FROM run, json_each(run.document, '$.ranks') AS one
    GROUP BY ALL
),
counted AS (
    SELECT kernel.rank, COUNT(*) AS kernels, COUNT(DISTINCT step.number) AS steps
    FROM kernel
    LEFT JOIN step USING (step_id)
    GROUP BY kernel.rank
),
parts AS (
    SELECT
        rank,
        SUM(dur) AS window_ns,
        SUM(dur) FILTER (part = 'computing') AS computing_ns,
        SUM(dur) FILTER (part = 'exposed_transfer') AS exposed_transfer_ns,
        SUM(dur) FILTER (part = 'exposed_wait') AS exposed_wait_ns,
        SUM(dur) FILTER (part = 'exposed_unmatched') AS exposed_unmatched_ns,
        SUM(dur) FILTER (part = 'exposed_copy') AS exposed_copy_ns,
        SUM(dur) FILTER (part = 'idle') AS idle_ns
    FROM device_timeline
    GROUP BY rank
),
caused AS (
    SELECT rank, SUM(wait_ns) AS ns FROM straggler GROUP BY rank
),
by_host AS (
    SELECT rank, SUM(dur) AS ns FROM gap WHERE cause IN ('host', 'sync') GROUP BY rank
)
SELECT
    trace.rank, described.host, described.gpu, trace.device_name,
    COALESCE(layout.pp_rank, 0) AS pp_rank,
    trace.path,
    COALESCE(counted.kernels, 0) AS kernels,
    COALESCE(counted.steps, 0) AS steps,
    CAST(COALESCE(parts.window_ns, 0) AS BIGINT) AS window_ns,
    CAST(COALESCE(parts.computing_ns, 0) AS BIGINT) AS computing_ns,
    CAST(COALESCE(parts.exposed_transfer_ns, 0) AS BIGINT) AS exposed_transfer_ns,
    CAST(COALESCE(parts.exposed_wait_ns, 0) AS BIGINT) AS exposed_wait_ns,
    CAST(COALESCE(parts.exposed_unmatched_ns, 0) AS BIGINT) AS exposed_unmatched_ns,
    CAST(COALESCE(parts.exposed_copy_ns, 0) AS BIGINT) AS exposed_copy_ns,
    CAST(COALESCE(parts.idle_ns, 0) AS BIGINT) AS idle_ns,
    CAST(COALESCE(caused.ns, 0) AS BIGINT) AS caused_wait_ns,
    CAST(COALESCE(by_host.ns, 0) AS BIGINT) AS idle_host_ns
FROM trace
LEFT JOIN layout USING (rank)
LEFT JOIN described USING (rank)
LEFT JOIN counted USING (rank)
LEFT JOIN parts USING (rank)
LEFT JOIN caused USING (rank)
LEFT JOIN by_host USING (rank)
WHERE trace.rank IS NOT NULL
ORDER BY trace.rank
