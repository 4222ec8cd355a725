-- Variables set how NCCL communicates, or an old NCCL is loaded, and large messages are slow.
-- @title   NCCL kept from choosing
-- @group   communication
-- @unless  p2p_off
-- @query   comm.bandwidth
-- @record  Record all ranks with traceql capture run, which notes the environment and the versions.
-- @source  NCCL's environment variables, which its documentation keeps for tests; like GPUs reach 85% to 110% of each other's speed
-- @needs   engine_setting, run, time_unit, timed_collective, trace
WITH loaded AS (
    SELECT COUNT(rank) < MAX(world_size) AS is_partial, MAX(world_size) AS world_size FROM trace
),
variable AS (
    SELECT list(name || '=' || value ORDER BY name) AS found
    FROM (
        SELECT UNNEST(json_keys(environment)) AS name, UNNEST(json_extract_string(environment, '$.*')) AS value
        FROM engine_setting
    )
    WHERE regexp_matches(
        name, '^NCCL_(PROTO|ALGO|(MIN|MAX)_(NCHANNELS|CTAS|P2P_NCHANNELS)|NTHREADS|BUFFSIZE|NVB_DISABLE|LL_THRESHOLD|TREE_THRESHOLD)$'
    )
),
library AS (
    SELECT
        ANY_VALUE(document ->> '$.versions.nccl') AS loaded,
        ANY_VALUE(COALESCE(
            document ->> '$.versions."nvidia-nccl-cu13"', document ->> '$.versions."nvidia-nccl-cu12"'
        )) AS installed
    FROM run
),
operation AS (
    SELECT
        *,
        CASE WHEN is_undisturbed THEN transfer_ns / expected_ns END AS ratio,
        CASE WHEN expected_ns < transfer_ns THEN exposed_ns * (1 - expected_ns / transfer_ns) ELSE 0 END AS excess_ns
    FROM timed_collective
    WHERE algorithm = 'nccl' AND bytes >= 1048576
),
counted AS (
    SELECT
        COUNT(ratio) AS compared,
        COUNT(*) AS operations,
        100 / quantile_cont(ratio, 0.5) AS reached_pct,
        COUNT(DISTINCT number) AS steps,
        MODE(phase) AS phase
    FROM operation
),
example AS (
    SELECT arg_max(row, row.total_ns) AS row
    FROM (
        SELECT {
            'op': replace(op, '_', '-'), 'bytes': bytes, 'gbps': MEDIAN(busbw_gbps),
            'expected_gbps': MEDIAN(busbw_gbps * transfer_ns / expected_ns), 'total_ns': SUM(exposed_ns),
            'rank': arg_max(rank, transfer_ns), 'ts': arg_max(ts, transfer_ns), 'dur': MAX(transfer_ns)
        } AS row
        FROM operation
        WHERE ratio IS NOT NULL
        GROUP BY op, bytes
    )
),
share AS (
    SELECT rank, step_id, role, SUM(excess_ns) / NULLIF(SUM(exposed_ns), 0) AS share
    FROM (
        FROM operation
        UNION ALL BY NAME
        SELECT rank, step_id, role, exposed_ns FROM timed_collective WHERE algorithm <> 'nccl' OR bytes < 1048576 OR bytes IS NULL
    )
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
        COALESCE(len(variable.found) > 0, FALSE) AS has_variable,
        COALESCE(library.loaded <> library.installed, FALSE) AS has_other_library,
        reached_pct >= 60 AS is_at_speed
    FROM counted
    CROSS JOIN loaded
    CROSS JOIN variable
    CROSS JOIN library
    CROSS JOIN example
)
SELECT
    CASE
        WHEN world_size = 1 THEN FALSE
        WHEN operations = 0 AND is_partial THEN NULL
        WHEN operations = 0 OR is_at_speed THEN FALSE
        WHEN compared = 0 THEN NULL
        WHEN has_variable OR has_other_library THEN TRUE
    END AS is_confirmed,
    CASE
        WHEN world_size = 1 THEN 'the run has one rank'
        WHEN operations = 0 AND is_partial THEN 'not all ranks are loaded, so what transfers take is unknown'
        WHEN operations = 0 THEN 'NCCL carries no message of 1 MiB or more'
        WHEN is_at_speed THEN format('messages of 1 MiB and more reach {:.0f}% of their speed elsewhere', reached_pct)
        WHEN compared = 0 THEN 'how fast such messages are on these devices is unknown (traceql experiment peaks measures it)'
        WHEN has_variable OR has_other_library THEN NULL
        ELSE format('messages of 1 MiB and more reach {:.0f}% of their speed elsewhere, and no variable or library explains it', reached_pct)
    END AS reason,
    format('Large messages of NCCL reach {:.0f}% of their speed elsewhere', reached_pct) AS headline,
    [
        format(
            '{} of {:.0f} MiB reaches {:.0f} GB/s, elsewhere {:.0f}.', upper(judged.row.op[1]) || judged.row.op[2:], judged.row.bytes / 1048576,
            judged.row.gbps, judged.row.expected_gbps
        ),
        CASE WHEN has_variable THEN format('The environment has {}.', array_to_string(found, ', ')) END,
        CASE WHEN has_other_library THEN format('NCCL {} is loaded, although {} is installed.', judged.loaded, installed) END
    ] AS evidence,
    concat_ws(
        '; ',
        CASE WHEN has_variable THEN 'unset ' || array_to_string(list_transform(found, lambda one: split_part(one, '=', 1)), ' ') END,
        CASE WHEN has_other_library THEN 'take the other NCCL out of LD_LIBRARY_PATH and VLLM_NCCL_SO_PATH' END
    ) AS remedy,
    CASE WHEN has_variable THEN 'Why they were set.' END AS unknowns,
    claimed.claims, compared AS samples, phase, judged.row.rank AS rank, judged.row.ts AS ts, judged.row.dur AS dur
FROM judged
CROSS JOIN claimed
