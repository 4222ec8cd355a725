-- NCCL does not use the direct links between GPUs, although they have them.
-- @title   peer-to-peer transfers off
-- @group   communication
-- @query   comm.bandwidth
-- @record  Record all ranks with traceql capture run, and with NCCL_DEBUG=INFO in the environment.
-- @source  NCCL's environment variables; two H100 with NVLink moved 15 MB at 27 GB/s with NCCL_P2P_DISABLE=1, at 201 without it
-- @needs   engine_setting, log_message, time_unit, timed_collective, trace
WITH loaded AS (
    SELECT COUNT(rank) AS ranks, MAX(world_size) AS world_size FROM trace
),
sign AS (
    SELECT
        CASE
            WHEN TRY_CAST(setting.environment ->> '$.NCCL_P2P_DISABLE' AS BIGINT) > 0
                THEN 'NCCL_P2P_DISABLE=' || (setting.environment ->> '$.NCCL_P2P_DISABLE')
            WHEN upper(setting.environment ->> '$.NCCL_P2P_LEVEL') IN ('LOC', '0')
                THEN 'NCCL_P2P_LEVEL=' || (setting.environment ->> '$.NCCL_P2P_LEVEL')
        END AS variable,
        logged.is_shared
    FROM engine_setting AS setting
    CROSS JOIN (SELECT COUNT(*) > 0 AS is_shared FROM log_message WHERE contains(text, ' via SHM')) AS logged
),
operation AS (
    SELECT
        *,
        CASE WHEN is_undisturbed THEN transfer_ns / expected_ns END AS ratio,
        CASE WHEN expected_ns < transfer_ns THEN exposed_ns * (1 - expected_ns / transfer_ns) ELSE 0 END AS excess_ns
    FROM timed_collective
    WHERE algorithm = 'nccl'
),
counted AS (
    SELECT
        COUNT(*) AS operations,
        COUNT(*) FILTER (regexp_matches(link, 'NVLink|Infinity Fabric')) AS direct,
        ANY_VALUE(link) AS link,
        quantile_cont(ratio, 0.5) AS ratio,
        COUNT(ratio) AS compared,
        COUNT(DISTINCT number) AS steps,
        MODE(phase) AS phase
    FROM operation
),
-- The size that takes the most time, as an example.
example AS (
    SELECT
        arg_max(
            {
                'op': replace(op, '_', '-'), 'bytes': bytes, 'gbps': gbps, 'expected_gbps': gbps * ns / expected_ns,
                'ns': ns, 'expected_ns': expected_ns, 'rank': rank, 'ts': ts, 'dur': dur
            },
            total_ns
        ) AS row
    FROM (
        SELECT
            op, bytes, MEDIAN(busbw_gbps) AS gbps, MEDIAN(transfer_ns) AS ns, ANY_VALUE(expected_ns) AS expected_ns,
            SUM(exposed_ns) AS total_ns, arg_max(rank, transfer_ns) AS rank, arg_max(ts, transfer_ns) AS ts, MAX(transfer_ns) AS dur
        FROM operation
        WHERE ratio IS NOT NULL
        GROUP BY op, bytes
    )
),
written AS (
    SELECT
        CASE
            WHEN row.bytes >= 1048576 THEN format('{} of {:.0f} MiB reaches {:.0f} GB/s', row.op, row.bytes / 1048576, row.gbps)
            ELSE format('{} of {:.0f} KiB takes {:.1f} us', row.op, row.bytes / 1024, row.ns / 1e3)
        END AS measured,
        CASE
            WHEN row.bytes >= 1048576 THEN format('{:.0f} GB/s', row.expected_gbps)
            ELSE format('{:.1f} us', row.expected_ns / 1e3)
        END AS expected,
        row
    FROM example
),
share AS (
    SELECT rank, step_id, role, SUM(excess_ns) FILTER (algorithm = 'nccl') / NULLIF(SUM(exposed_ns), 0) AS share
    FROM (FROM timed_collective WHERE algorithm <> 'nccl' UNION ALL BY NAME FROM operation)
    GROUP BY rank, step_id, role
),
claimed AS (
    SELECT list({'unit': unit, 'ns': CAST(ns * share.share AS BIGINT)} ORDER BY unit) AS claims
    FROM time_unit
    INNER JOIN share
        ON time_unit.rank = share.rank
        AND time_unit.step_id IS NOT DISTINCT FROM share.step_id
        AND time_unit.role IS NOT DISTINCT FROM share.role
    WHERE time_unit.part = 'transfer' AND share.share > 0
),
judged AS (
    SELECT
        *,
        COALESCE(sign.variable IS NOT NULL OR sign.is_shared, FALSE) AS has_sign,
        counted.ratio < 1.67 AS is_at_speed
    FROM counted
    CROSS JOIN sign
    CROSS JOIN loaded
)
SELECT
    CASE
        WHEN judged.world_size = 1 THEN FALSE
        WHEN judged.operations = 0 AND judged.ranks < judged.world_size THEN NULL
        WHEN judged.operations = 0 OR judged.is_at_speed THEN FALSE
        WHEN judged.link IS NULL THEN NULL
        WHEN judged.direct = 0 THEN FALSE
        WHEN judged.has_sign THEN TRUE
    END AS is_confirmed,
    CASE
        WHEN judged.world_size = 1 THEN 'the run has one rank'
        WHEN judged.operations = 0 AND judged.ranks < judged.world_size THEN 'not all ranks are loaded, so what transfers take is unknown'
        WHEN judged.operations = 0 THEN 'no operation of NCCL was matched between ranks'
        WHEN judged.is_at_speed
            THEN format('NCCL is at speed: {}, {} elsewhere', written.measured, written.expected)
        WHEN judged.link IS NULL THEN 'what connects the ranks is unknown; traceql capture run notes their topology'
        WHEN judged.direct = 0 THEN format('the ranks are connected by {}', judged.link)
        WHEN judged.has_sign THEN NULL
        WHEN judged.ratio IS NULL THEN 'neither sizes with a known speed nor the environment of NCCL were recorded'
        ELSE format(
            'NCCL takes {:.1f} times as long as elsewhere, and nothing says why; run with NCCL_DEBUG=INFO, whose log names the transport',
            judged.ratio
        )
    END AS reason,
    CASE
        WHEN judged.ratio IS NULL THEN format('NCCL may not use peer-to-peer transfers, although the ranks have {}', judged.link)
        WHEN written.row.bytes >= 1048576
            THEN format(
                'NCCL reaches {:.0f} GB/s without peer-to-peer transfers; {} gives {:.0f}',
                written.row.gbps, judged.link, written.row.expected_gbps
            )
        ELSE format('NCCL takes {:.1f} times as long without peer-to-peer transfers as over {}', judged.ratio, judged.link)
    END AS headline,
    [
        CASE
            WHEN judged.variable IS NOT NULL THEN format('The environment has {}.', judged.variable)
            WHEN judged.is_shared THEN 'The log of NCCL says that channels go via SHM (shared memory of the host).'
        END,
        format('{}{}; elsewhere {} over {}.', upper(written.measured[1]), written.measured[2:], written.expected, judged.link),
        CASE WHEN judged.compared > 0 THEN format(
            'Of {:,} operations of NCCL, the median takes {:.1f} times as long as elsewhere.', judged.compared, judged.ratio
        ) END
    ] AS evidence,
    CASE
        WHEN judged.variable IS NOT NULL THEN 'unset ' || split_part(judged.variable, '=', 1)
        ELSE 'nvidia-smi topo -p2p r (if it does not say OK: turn IOMMU and ACS off, and give the container all devices)'
    END AS remedy,
    CASE
        WHEN judged.ratio IS NULL THEN 'How fast its transfers are: record all ranks, with sizes.'
        WHEN judged.variable IS NOT NULL THEN 'Why the variable was set: it works around faulty peer-to-peer access on some machines.'
    END AS unknowns,
    claimed.claims, judged.steps AS samples, judged.phase, written.row.rank AS rank, written.row.ts AS ts, written.row.dur AS dur,
    CASE
        WHEN judged.is_at_speed THEN CASE
            WHEN written.row.bytes >= 1048576
                THEN format('{} ({:.0f} MiB at {:.0f} GB/s)', written.row.op, written.row.bytes / 1048576, written.row.gbps)
            ELSE format('{} ({:.0f} KiB in {:.1f} us)', written.row.op, written.row.bytes / 1024, written.row.ns / 1e3)
        END
    END AS fine
FROM judged
CROSS JOIN written
CROSS JOIN claimed
