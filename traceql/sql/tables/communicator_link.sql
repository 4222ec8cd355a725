-- One row per communicator: the link that limits its bandwidth.
-- @scope  run
-- @needs  clock, communicator, integer_at, link, on_reference_clock, run_file, text_at, trace
-- @column communicator_id  BIGINT   Communicator (communicator.communicator_id).
-- @column link             VARCHAR  Hardware that connects its ranks: NVLink, Infinity Fabric or PCIe inside a machine, the network between machines; NULL if unknown.
-- @column peak_gbps        DOUBLE   Peak of the links in one direction that the group's GPUs have to each other, which limits the bus bandwidth, 1e9 bytes per second; NULL if unknown.
-- @column source           VARCHAR  How the link is known, or what is missing.
WITH rank_of_group AS (
    SELECT communicator_id, UNNEST(CAST(regexp_extract_all(group_ranks, '\d+') AS BIGINT[])) AS rank
    FROM communicator
),
listed AS (
    SELECT run, integer_at(gpu, '$.index') AS gpu, text_at(gpu, '$.uuid') AS uuid
    FROM (SELECT path AS run, UNNEST(from_json(document -> '$.gpus', '["JSON"]')) AS gpu FROM run_file)
),
stated AS (
    SELECT
        run,
        integer_at(entry, '$.rank') AS rank,
        text_at(entry, '$.device_uuid') AS device_uuid,
        text_at(entry, '$.host') AS host
    FROM (SELECT path AS run, UNNEST(from_json(document -> '$.ranks', '["JSON"]')) AS entry FROM run_file)
),
-- A rank ran on the host that made the recording if that host lists the rank's GPU.
placed AS (
    SELECT
        trace.rank, trace.device_name,
        run_file.path AS run,
        listed.gpu,
        COALESCE(
            stated.host,
            CASE
                WHEN listed.gpu IS NOT NULL
                    THEN COALESCE(text_at(run_file.document, '$.host.name'), run_file.path)
            END
        ) AS host
    FROM trace
    LEFT JOIN run_file ON starts_with(trace.path, run_file.path || '/')
    LEFT JOIN stated ON run_file.path = stated.run AND trace.rank = stated.rank
    LEFT JOIN listed ON run_file.path = listed.run AND stated.device_uuid = listed.uuid
    WHERE trace.rank IS NOT NULL
),
-- The matrix of `nvidia-smi topo -m` has one line per GPU. Its first columns are the GPUs in order.
topology AS (
    SELECT
        path AS run,
        string_split(UNNEST(string_split(
            regexp_replace(text_at(document, '$.topology'), '\x1b\[[0-9;]*m', '', 'g'), chr(10)
        )), chr(9)) AS cells
    FROM run_file
),
gpu_line AS (
    SELECT run, TRY_CAST(regexp_extract(trim(cells[1]), '^GPU(\d{1,6})$', 1) AS BIGINT) AS gpu, cells
    FROM topology
    WHERE regexp_matches(trim(cells[1]), '^GPU\d{1,6}$')
),
pair AS (
    SELECT
        one.run, one.gpu,
        other.gpu AS other,
        trim(one.cells[other.gpu + 2]) LIKE 'NV%' AS nvlink
    FROM gpu_line AS one
    INNER JOIN gpu_line AS other ON one.run = other.run AND one.gpu < other.gpu
),
member AS (
    SELECT
        communicator.communicator_id, communicator.group_size, placed.*, clock.compared_with,
        clock.tolerance_ns, clock.offset_ns, clock.drift, clock.at_ns,
        MIN(clock.at_ns) OVER (PARTITION BY communicator.communicator_id) AS shared_ts
    FROM communicator
    INNER JOIN rank_of_group USING (communicator_id)
    INNER JOIN placed USING (rank)
    LEFT JOIN clock USING (rank)
),
-- Ranks on one host share a clock. So if run.json does not name the hosts, the measured difference
-- of the clocks shows whether the ranks are on several hosts.
spread AS (
    SELECT
        communicator_id,
        MAX(group_size) AS group_size,
        ANY_VALUE(run) AS run,
        COUNT(DISTINCT run) = 1 AND COUNT(gpu) = COUNT(*) AS gpus_known,
        MIN(per_host) AS per_host,
        CASE
            WHEN COUNT(*) < MAX(group_size) THEN NULL
            WHEN COUNT(host) = COUNT(*) THEN COUNT(DISTINCT host) > 1
            WHEN COUNT(DISTINCT compared_with) = 1
                THEN MAX(ahead_ns) - MIN(ahead_ns) > MAX(tolerance_ns)
        END AS spans_hosts,
        COUNT(*) < MAX(group_size) AS is_partial
    FROM (
        SELECT
            *,
            shared_ts - on_reference_clock(shared_ts, offset_ns, drift, at_ns) AS ahead_ns,
            CASE WHEN host IS NOT NULL THEN COUNT(*) OVER (PARTITION BY communicator_id, host) END AS per_host
        FROM member
    )
    GROUP BY communicator_id
),
-- Whether all pairs of the communicator's GPUs have NVLink. If it is unknown which GPUs these are,
-- the answer is known only if all pairs of the host have NVLink, or none.
joined AS (
    SELECT
        spread.communicator_id,
        CASE
            WHEN spread.gpus_known THEN bool_and(pair.nvlink) FILTER (
                pair.gpu IN (SELECT gpu FROM member WHERE communicator_id = spread.communicator_id)
                AND pair.other IN (SELECT gpu FROM member WHERE communicator_id = spread.communicator_id)
            )
            WHEN bool_and(pair.nvlink) = bool_or(pair.nvlink) THEN bool_and(pair.nvlink)
        END AS nvlink,
        COUNT(pair.nvlink) > 0 AS has_topology
    FROM spread
    LEFT JOIN pair USING (run)
    GROUP BY spread.communicator_id, spread.gpus_known
),
-- The links that are possible for each rank by the name of its GPU.
possible AS (
    SELECT
        member.communicator_id, member.rank,
        arg_min(kind, kind.position) FILTER (kind.medium IN ('fabric', 'bridge')) AS direct,
        arg_min(kind, kind.position) FILTER (kind.medium = 'pcie') AS pcie
    FROM member
    LEFT JOIN link AS kind
        ON kind.medium <> 'network' AND regexp_matches(member.device_name, kind.device)
    GROUP BY member.communicator_id, member.rank
),
inside AS (
    SELECT
        possible.communicator_id,
        CASE
            WHEN joined.has_topology AND joined.nvlink THEN possible.direct
            WHEN joined.has_topology AND NOT joined.nvlink THEN possible.pcie
            WHEN joined.has_topology THEN NULL
            WHEN possible.direct.medium = 'fabric' OR possible.direct IS NULL
                THEN COALESCE(possible.direct, possible.pcie)
        END AS chosen,
        CASE
            WHEN possible.direct IS NULL AND possible.pcie IS NULL THEN 'unknown: table link does not list this GPU'
            WHEN joined.has_topology AND joined.nvlink IS NULL
                THEN 'unknown: run.json has the topology, but not the GPU of each rank'
            WHEN joined.has_topology AND joined.nvlink AND possible.direct IS NULL
                THEN 'unknown: table link lists no NVLink for this GPU'
            WHEN joined.has_topology THEN 'topology in run.json'
            WHEN possible.direct.medium = 'bridge' THEN 'unknown: bridge or PCIe, because the topology was not recorded'
            ELSE 'name of the GPU'
        END AS source
    FROM possible
    INNER JOIN joined USING (communicator_id)
),
-- The active network adapters of a host are divided evenly among its GPUs, at least one for each.
adapter AS (
    SELECT path AS run, UNNEST(from_json(document -> '$.network_adapters', '["JSON"]')) AS of_host
    FROM run_file
),
network AS (
    SELECT
        adapter.run,
        arg_min(kind, kind.peak_gbps) AS chosen,
        COUNT(*) AS adapters,
        (SELECT COUNT(*) FROM listed WHERE listed.run = adapter.run) AS gpus
    FROM adapter
    INNER JOIN link AS kind
        ON kind.medium = 'network'
        AND regexp_matches(text_at(of_host, '$.link_layer') || ' ' || text_at(of_host, '$.rate'), kind.device)
    GROUP BY adapter.run
),
bound AS (
    SELECT
        inside.communicator_id,
        inside.chosen.link AS link,
        LEAST(
            inside.chosen.peak_gbps, (spread.group_size - 1) * inside.chosen.pair_gbps
        ) AS peak_gbps,
        inside.source
    FROM inside
    INNER JOIN spread USING (communicator_id)
    WHERE NOT spread.spans_hosts
    UNION ALL
    SELECT
        spread.communicator_id,
        network.chosen.link,
        network.chosen.peak_gbps
        * GREATEST(1, network.adapters * spread.per_host / NULLIF(network.gpus, 0)),
        CASE
            WHEN network.chosen IS NULL
                THEN 'unknown: the ranks are on several hosts, and their network adapters were not recorded'
            WHEN spread.per_host IS NULL THEN 'unknown: how many ranks of a host share its network adapters'
            ELSE format('{} network adapters of a host in run.json', network.adapters)
        END
    FROM spread
    LEFT JOIN network USING (run)
    WHERE spread.spans_hosts
    UNION ALL
    SELECT
        communicator_id,
        NULL,
        NULL,
        CASE
            WHEN is_partial THEN 'unknown: not all ranks of the communicator are loaded'
            ELSE 'unknown: whether the ranks are on one host'
        END
    FROM spread
    WHERE spans_hosts IS NULL
)
-- The slowest GPU of a communicator limits it.
SELECT
    communicator_id,
    CASE WHEN COUNT(*) = COUNT(peak_gbps) THEN arg_min(link, peak_gbps) END AS link,
    CASE WHEN COUNT(*) = COUNT(peak_gbps) THEN MIN(peak_gbps) END AS peak_gbps,
    COALESCE(MIN(source) FILTER (peak_gbps IS NULL), MIN(source)) AS source
FROM bound
GROUP BY communicator_id
ORDER BY communicator_id
