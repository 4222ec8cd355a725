-- Each launch call waits until its kernel has ended, as with CUDA_LAUNCH_BLOCKING=1.
-- @title   blocking launches
-- @group   host
-- @query   launch.latency
-- @record  Record CPU activities too.
-- @source  CUDA programming guide: CUDA_LAUNCH_BLOCKING disables asynchronous launches, for debugging alone
-- @needs   engine_setting, host_clock, kernel, launch, time_unit, wording
WITH setting AS (
    SELECT
        list_filter(
            ['CUDA_LAUNCH_BLOCKING', 'HIP_LAUNCH_BLOCKING', 'ASCEND_LAUNCH_BLOCKING', 'AMD_SERIALIZE_KERNEL'],
            lambda name: COALESCE(environment ->> ('$.' || name), '0') NOT IN ('0', '')
        )[1] AS variable,
        (environment IS NOT NULL) AS has_environment
    FROM engine_setting
),
-- Of short kernels, a call may return later in any case.
launched AS (
    SELECT
        COUNT(*) AS kernels,
        COUNT(*) FILTER (kernel.ts + kernel.dur <= launch.ts + launch.dur) AS awaited
    FROM kernel
    INNER JOIN launch ON kernel.launch_id = launch.id
    INNER JOIN host_clock ON kernel.rank = host_clock.rank
    WHERE kernel.dur > 20000 AND kernel.kind = 'kernel' AND host_clock.agrees AND regexp_matches(launch.name, 'Launch')
),
claimed AS (
    SELECT
        list({'unit': unit, 'ns': ns} ORDER BY unit) AS claims,
        arg_max(rank, longest_ns) AS rank, arg_max(longest_ts, longest_ns) AS ts, MAX(longest_ns) AS dur
    FROM time_unit
    WHERE part = 'lost' AND cause IN ('host', 'sync') AND is_between IS NOT TRUE
)
SELECT
    CASE
        WHEN launched.kernels >= 50 THEN launched.awaited >= 0.95 * launched.kernels
        WHEN setting.has_environment AND setting.variable IS NULL THEN FALSE
    END AS is_confirmed,
    CASE
        WHEN launched.kernels >= 50 AND launched.awaited < 0.95 * launched.kernels
            THEN format('{:,} of {:,} launches return before their kernel ends', launched.kernels - launched.awaited, launched.kernels)
        WHEN setting.has_environment AND setting.variable IS NULL THEN 'the environment has no variable that makes launches block'
        ELSE 'launch calls of at least 50 kernels longer than 20 us were not recorded'
    END AS reason,
    format('{:,} of {:,} launches return only when their kernel has ended', launched.awaited, launched.kernels) AS headline,
    [
        CASE
            WHEN setting.variable IS NOT NULL THEN format('{} is set in the environment of the engine.', setting.variable)
            ELSE 'That is what CUDA_LAUNCH_BLOCKING=1 does.'
        END,
        format('So a {} has nothing to do between all kernels.', wording.device)
    ] AS evidence,
    format('unset {}', COALESCE(setting.variable, 'CUDA_LAUNCH_BLOCKING')) AS remedy,
    CASE WHEN setting.variable IS NULL THEN 'Which setting does it: the environment was not recorded, or does not have it.' END AS unknowns,
    claimed.claims, launched.kernels AS samples, claimed.rank, claimed.ts, claimed.dur
FROM setting
CROSS JOIN launched
CROSS JOIN claimed
CROSS JOIN wording
