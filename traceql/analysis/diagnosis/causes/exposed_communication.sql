-- Transfers that no compute hides take much of a step, for no more specific cause.
-- @title   exposed communication
-- @group   communication
-- @most    notable
-- @after   custom_all_reduce_off
-- @unless  nccl_protocol, p2p_off, tp_too_large
-- @query   comm.exposed by='phase'
-- @record  Record all ranks at the same time, so that waiting and transfers can be distinguished.
-- @source  rule of thumb: communication should take less than 30% of a step; half of it is worth a look
-- @needs   engine_setting, time_scale, time_unit, timed_collective, trace
WITH loaded AS (
    SELECT
        MAX(world_size) AS world_size, COUNT(rank) < MAX(world_size) AS is_partial,
        BOOL_OR(regexp_matches(device_name, 'H100|H200|B200|B300')) AS has_fused FROM trace
),
spent AS (
    SELECT
        COALESCE(SUM(ns) FILTER (part = 'transfer'), 0) AS ns,
        COALESCE(SUM(ns) FILTER (part = 'unmatched'), 0) AS unmatched_ns,
        arg_max(rank, longest_ns) FILTER (part = 'transfer') AS rank,
        arg_max(longest_ts, longest_ns) FILTER (part = 'transfer') AS ts,
        MAX(longest_ns) FILTER (part = 'transfer') AS dur,
        COUNT(DISTINCT number) FILTER (part = 'transfer') AS steps
    FROM time_unit
),
named AS (
    SELECT array_to_string(list(format('{} ({:.0f}%)', role, 100.0 * ns / all_ns) ORDER BY ns DESC, role)[:2], ' and ') AS roles
    FROM (
        SELECT role, SUM(ns) AS ns, SUM(SUM(ns)) OVER () AS all_ns
        FROM time_unit
        WHERE part = 'transfer' AND role IS NOT NULL
        GROUP BY role
    )
),
phase AS (
    SELECT arg_max(phase, ns) AS phase
    FROM (SELECT phase, SUM(exposed_ns) AS ns FROM timed_collective GROUP BY phase)
),
operation AS (
    SELECT
        SUM(exposed_ns) FILTER (scope = 'tensor' AND is_vllm AND op = 'all_reduce' AND ranks IN (2, 4, 8)) AS tensor_ns,
        SUM(exposed_ns) AS ns,
        BOOL_OR(is_vllm) AS is_vllm,
        quantile_cont(CASE WHEN is_undisturbed THEN transfer_ns / expected_ns END, 0.5) AS ratio
    FROM timed_collective
),
judged AS (
    SELECT
        spent.*, operation.* EXCLUDE (ns), phase.phase, named.roles, loaded.world_size, loaded.is_partial,
        spent.ns / (scale.devices * scale.steps) AS step_transfer_ns,
        spent.ns / (scale.devices * scale.steps * scale.step_ns) AS share,
        spent.unmatched_ns / (scale.devices * scale.steps * scale.step_ns) AS unmatched_share,
        operation.tensor_ns > 0.5 * operation.ns AND loaded.has_fused
        AND COALESCE(setting.config ->> '$.compilation_config.pass_config.fuse_allreduce_rms', 'false') <> 'true'
        AND COALESCE(setting.compilation_mode, 3) <> 0
        AND setting.enforce_eager IS NOT TRUE AS can_fuse
    FROM spent
    CROSS JOIN operation
    CROSS JOIN phase
    CROSS JOIN named
    CROSS JOIN loaded
    CROSS JOIN engine_setting AS setting
    LEFT JOIN time_scale AS scale ON TRUE
)
SELECT
    CASE
        WHEN world_size = 1 THEN FALSE
        WHEN share >= 0.15 THEN TRUE
        WHEN share + unmatched_share >= 0.15 THEN NULL
        WHEN share IS NOT NULL THEN FALSE
    END AS is_confirmed,
    CASE
        WHEN world_size = 1 THEN 'the run has one rank'
        WHEN share IS NULL THEN 'no kernel was recorded'
        WHEN share + unmatched_share >= 0.15
            THEN format('operations that were not matched take {:.0f}% of a step, waiting included{}', 100 * unmatched_share, CASE WHEN is_partial THEN '; load all ranks' ELSE '' END)
        ELSE format('transfers that no compute hides take {:.0f}% of a step', 100 * share)
    END AS reason,
    format('Transfers that no compute hides take {:.0f}% of a step', 100 * share) AS headline,
    [
        format(
            'They take {:.2f} ms a step, without waiting for late ranks{}.', step_transfer_ns / 1e6,
            COALESCE('; most of it is ' || NULLIF(roles, ''), '')
        ),
        CASE
            WHEN ratio >= 1.67 THEN format('The median operation takes {:.1f} times as long as elsewhere.', ratio)
            WHEN ratio IS NOT NULL THEN 'The operations are as fast as elsewhere on such devices.'
        END,
        CASE WHEN unmatched_share > 0.01 THEN format('Operations that were not matched take {:.0f}% more.', 100 * unmatched_share) END
    ] AS evidence,
    CASE
        WHEN ratio >= 1.67 THEN 'NCCL_DEBUG=INFO in the environment, whose log names transports and channels; nvidia-smi topo -p2p r'
        WHEN can_fuse THEN '-cc.pass_config.fuse_allreduce_rms=true (needs FlashInfer; measure it)'
        WHEN is_vllm THEN 'traceql run comm.exposed DB shows in which phase; fewer ranks per engine, or faster links'
        ELSE 'Overlap it with compute: larger buckets (DDP bucket_cap_mb), prefetching (FSDP), or gradient accumulation'
    END AS remedy,
    'How much of it could be hidden: what would be saved is at most all of it.' AS unknowns,
    steps AS samples, TRUE AS is_notable, phase, rank, ts, dur
FROM judged
