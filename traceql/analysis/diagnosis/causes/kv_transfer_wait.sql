-- Steps wait for keys and values from another engine, or from memory of the host.
-- @title   waiting for KV transfers
-- @group   scheduling
-- @query   idle.host
-- @record  Record with stacks (traceql capture run --stacks), which show the calls of the connector.
-- @source  vLLM's KV connectors: start_load_kv, wait_for_layer_load and wait_for_save run within the step
-- @needs   engine_setting, event_kind, lost_interval, scheduler_load, slice, time_scale, time_unit
-- @after   slow_host_rank
WITH setting AS (
    SELECT
        has_config,
        COALESCE(json_type(config, '$.kv_transfer_config') = 'OBJECT', FALSE) AS has_connector,
        config ->> '$.kv_transfer_config.kv_connector' AS connector,
        COALESCE(TRY_CAST(config ->> '$.cache_config.kv_offloading_size' AS DOUBLE), 0) AS offloaded_gib
    FROM engine_setting
),
-- Python frames are searched only where there may be a connector.
frame AS (
    SELECT slice.rank, slice.ts, slice.dur, slice.name
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    CROSS JOIN (FROM setting WHERE NOT has_config OR has_connector OR offloaded_gib > 0)
    WHERE event_kind.kind = 'frame'
),
waited AS (
    SELECT
        lost_interval.rank, lost_interval.device, lost_interval.step_id, lost_interval.cause,
        -- A connector of several calls the same functions of each.
        LEAST(
            ANY_VALUE(lost_interval.dur),
            SUM(LEAST(lost_interval.ts + lost_interval.dur, frame.ts + frame.dur) - GREATEST(lost_interval.ts, frame.ts))
        ) AS ns
    FROM frame
    INNER JOIN lost_interval
        ON
            frame.rank = lost_interval.rank
            AND lost_interval.ts < frame.ts + frame.dur AND frame.ts < lost_interval.ts + lost_interval.dur
    WHERE regexp_matches(frame.name, 'start_load_kv|wait_for_layer_load|save_kv_layer|wait_for_save') AND lost_interval.part = 'idle'
    GROUP BY lost_interval.rank, lost_interval.device, lost_interval.step_id, lost_interval.cause, lost_interval.ts
),
kind AS (
    SELECT rank, device, step_id, cause, SUM(ns) AS ns
    FROM waited
    GROUP BY rank, device, step_id, cause
),
shared AS (
    SELECT
        time_unit.*,
        time_unit.ns * kind.ns / SUM(time_unit.ns) OVER (PARTITION BY time_unit.rank, time_unit.device, time_unit.step_id, time_unit.cause)
            AS own_ns
    FROM time_unit
    INNER JOIN kind
        ON
            time_unit.rank = kind.rank AND time_unit.device = kind.device AND time_unit.cause = kind.cause
            AND time_unit.step_id IS NOT DISTINCT FROM kind.step_id
    WHERE time_unit.part = 'lost' AND NOT time_unit.is_waiting
),
claimed AS (
    SELECT
        list({'unit': unit, 'ns': CAST(own_ns AS BIGINT)} ORDER BY unit) AS claims,
        COALESCE(SUM(own_ns), 0) AS ns,
        COUNT(DISTINCT number) AS steps,
        arg_max(rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts,
        MAX(longest_ns) AS dur
    FROM shared
),
stacks AS (
    SELECT COUNT(*) AS frames FROM frame
)
SELECT
    CASE
        WHEN load.is_program THEN FALSE
        WHEN claimed.ns > 0 AND (setting.has_connector OR setting.offloaded_gib > 0 OR NOT setting.has_config) THEN TRUE
        WHEN setting.has_config AND NOT setting.has_connector AND setting.offloaded_gib = 0 THEN FALSE
        WHEN stacks.frames > 0 THEN FALSE
    END AS is_confirmed,
    CASE
        WHEN load.is_program THEN 'these are steps of a program, not of an engine that schedules requests'
        WHEN claimed.ns > 0 AND (setting.has_connector OR setting.offloaded_gib > 0 OR NOT setting.has_config) THEN NULL
        WHEN setting.has_config AND NOT setting.has_connector AND setting.offloaded_gib = 0 THEN 'run.json has no kv_transfer_config, and no offloading'
        WHEN stacks.frames > 0 THEN 'no idle time lies in calls of a KV connector'
        WHEN NOT setting.has_config THEN 'no run.json says whether keys and values are transferred'
        ELSE 'keys and values are transferred, but calls were not recorded; record with stacks (traceql capture run --stacks)'
    END AS reason,
    'Each step waits {saving} in the KV connector' AS headline,
    [
        format(
            'Idle time in calls of the connector{}: {:.2f} ms a step, as recorded.',
            CASE WHEN setting.connector IS NOT NULL THEN format(' {}', setting.connector) ELSE '' END,
            claimed.ns / 1e6 / (time_scale.devices * time_scale.steps)
        ),
        CASE WHEN setting.offloaded_gib > 0 THEN format('run.json has kv_offloading_size {} GiB.', setting.offloaded_gib) END
    ] AS evidence,
    CASE
        WHEN setting.offloaded_gib > 0
            THEN 'A smaller --kv-offloading-size, or none, where computing a prompt again is faster than loading it'
        ELSE 'A faster link or a larger "kv_buffer_size" in --kv-transfer-config'
    END AS remedy,
    'How many bytes were transferred, and how fast the link is.' AS unknowns,
    claimed.claims, claimed.steps AS samples, claimed.rank, claimed.ts, claimed.dur
FROM claimed
CROSS JOIN setting
CROSS JOIN stacks
CROSS JOIN time_scale
CROSS JOIN scheduler_load AS load
