-- Kernels are compiled, or loaded onto the device, while requests wait.
-- @title   compilation while serving
-- @group   host
-- @query   idle.gaps
-- @record  Record CPU activities too, and the log of the engine.
-- @source  vLLM 0.25, vllm/utils/jit_monitor.py: it logs "JIT compilation during inference", once for each kernel
-- @needs   launch, log_message, lost_pct, run, stall_claim, time_scale, trace
WITH loaded AS (
    SELECT
        stall_claim.*,
        lost_pct(stall_claim.ns, time_scale) AS pct
    FROM time_scale
    LEFT JOIN stall_claim ON stall_claim.kind = 'module'
),
message AS (
    SELECT
        regexp_extract(log_message.text, 'during inference: ([^. ]+)', 1) AS name,
        COALESCE(log_message.unix_ns - base.base_ns BETWEEN run.window_ts - 1000000000 AND run.window_ts + run.window_dur, FALSE) AS is_recorded
    FROM log_message
    INNER JOIN run USING (run)
    CROSS JOIN (SELECT MIN(base_time_ns) AS base_ns FROM trace) AS base
    WHERE contains(log_message.text, 'JIT compilation during inference')
),
logged AS (
    SELECT
        COUNT(DISTINCT name) AS kernels,
        COUNT(DISTINCT name) FILTER (is_recorded) AS recorded,
        string_agg(DISTINCT name, ', ' ORDER BY name) AS names
    FROM message
),
recorded AS (
    SELECT COUNT(*) AS launches FROM launch
)
SELECT
    CASE
        WHEN loaded.pct >= 0.5 THEN TRUE
        WHEN recorded.launches = 0 THEN NULL
        ELSE FALSE
    END AS is_confirmed,
    CASE
        WHEN loaded.pct >= 0.5 THEN NULL
        WHEN recorded.launches = 0 THEN 'launch calls, which show when code is loaded, were not recorded'
        WHEN logged.kernels > 0
            THEN format('the log names {}, but no recorded step waits for its compilation', logged.names)
        ELSE 'no step waits while code is loaded onto the device'
    END AS reason,
    format('{} calls load code onto the device while {} steps wait for it', loaded.calls, loaded.steps) AS headline,
    [
        format('The longest takes {:.1f} ms; it is {}.', loaded.dur / 1e6, loaded.name),
        CASE WHEN logged.kernels > 0 THEN format('The log says that these were compiled while serving: {}.', logged.names) END,
        'Each happens once for a kernel and its shape.'
    ] AS evidence,
    'Warm up with requests of such shapes before serving; keep VLLM_CACHE_ROOT and TRITON_CACHE_DIR between starts (--jit-monitor-mode error finds what is missing)'
        AS remedy,
    'Whether a second run has it too.' AS unknowns,
    loaded.claims, loaded.calls AS samples, loaded.rank, loaded.ts, loaded.dur
FROM loaded
CROSS JOIN logged
CROSS JOIN recorded
