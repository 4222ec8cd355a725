-- One row per phase, layer and role: GPU time, and how far it is from that of the same role in other layers.
--
-- Use it to see which part of which layer takes the time, and whether a layer stands out. Waiting for
-- a late rank is a column of its own. Durations are summed across ranks, steps and streams.
-- @param  rank           BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase          VARCHAR = NULL  Only this phase; all by default.
-- @param  role           VARCHAR = NULL  Only this role, such as qkv_proj.
-- @values phase          prefill decode mixed idle
-- @column phase          VARCHAR  Phase of the step: prefill, decode, mixed or idle.
-- @column layer          BIGINT   Model layer, from 0.
-- @column role           VARCHAR  Part of the model.
-- @column work_ns        BIGINT   Total duration of its kernels without known wait time, ns.
-- @column wait_ns        BIGINT   Time its collectives waited for a late rank, ns; NULL if they were not matched, so that work_ns may contain waiting.
-- @column share_pct      DOUBLE   work_ns in percent of that of all layers in the phase.
-- @column deviation_pct  DOUBLE   How much longer work_ns is than the median of the role over the layers of the phase, percent of that median; negative if it is shorter.
-- @column calls          BIGINT   How often the part ran: kernels of a role that follow one another in a layer are one call.
-- @column mean_ns        DOUBLE   work_ns per call, ns.
-- @column total_ns       BIGINT   Total duration of its kernels, ns: work_ns and wait_ns.
-- @key    phase layer role work_ns wait_ns share_pct deviation_pct
-- @empty  no kernel was attributed to a layer, or none passes the filters; traceql check says why
-- @chart  deviation x=layer y=role color=work_ns
-- @title  How much longer each layer took than the median layer
WITH ran AS (
    SELECT
        step.phase, kernel.layer, kernel.role,
        COUNT(*) FILTER (role_call.begins_call) AS calls,
        SUM(kernel.dur) AS total_ns,
        SUM(role_call.wait_ns) AS wait_ns,
        SUM(kernel.dur - COALESCE(role_call.wait_ns, 0)) AS work_ns
    FROM kernel
    INNER JOIN step USING (step_id)
    INNER JOIN role_call ON kernel.id = role_call.kernel_id
    WHERE
        kernel.layer IS NOT NULL
        AND ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
    GROUP BY step.phase, kernel.layer, kernel.role
),
compared AS (
    SELECT *, MEDIAN(work_ns) OVER (PARTITION BY phase, role) AS median_ns FROM ran
)
SELECT
    phase, layer, role,
    CAST(work_ns AS BIGINT) AS work_ns,
    CAST(wait_ns AS BIGINT) AS wait_ns,
    100.0 * work_ns / NULLIF(SUM(work_ns) OVER (PARTITION BY phase), 0) AS share_pct,
    100.0 * (work_ns - median_ns) / NULLIF(median_ns, 0) AS deviation_pct,
    calls,
    1.0 * work_ns / NULLIF(calls, 0) AS mean_ns,
    CAST(total_ns AS BIGINT) AS total_ns
FROM compared
QUALIFY $role::VARCHAR IS NULL OR role = $role::VARCHAR
ORDER BY phase, layer, work_ns DESC, role
