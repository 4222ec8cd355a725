-- One row per phase and role: GPU time of each part of the model, without the time it waited for other ranks.
--
-- Use it to see what the parts of the model cost: in all, per step and per token. Waiting for a late
-- rank is a column of its own, because making the operation faster would not shorten it. Durations
-- are summed across ranks, layers, steps and streams. Roles outside layers (embed, lm_head, sample
-- ...) are included. role is NULL for kernels that could not be attributed.
-- @param  rank          BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase         VARCHAR = NULL  Only this phase; all by default.
-- @param  step          BIGINT  = NULL  Only this step (step_id, as steps.timeline lists it).
-- @param  role          VARCHAR = NULL  Only this role, such as qkv_proj.
-- @values phase         prefill decode mixed idle
-- @column phase         VARCHAR  Phase of the step: prefill, decode, mixed or idle.
-- @column role          VARCHAR  Part of the model; NULL if not attributed.
-- @column work_ns       BIGINT   Total duration of its kernels without known wait time, ns.
-- @column wait_ns       BIGINT   Time its collectives waited for a late rank, ns; NULL if they were not matched, so that work_ns may contain waiting.
-- @column share_pct     DOUBLE   work_ns in percent of that of all roles of the phase.
-- @column per_step_ns   DOUBLE   work_ns per step of the phase on one rank, ns.
-- @column per_token_ns  DOUBLE   work_ns per token that the steps of the phase processed or generated, on one rank, ns; NULL if their tokens are unknown.
-- @column calls         BIGINT   How often the part ran: kernels of a role that follow one another in a layer are one call.
-- @column mean_ns       DOUBLE   work_ns per call, ns.
-- @column layers        BIGINT   Number of layers that have the role; 0 outside layers.
-- @column total_ns      BIGINT   Total duration of its kernels, ns: work_ns and wait_ns.
-- @key    phase role work_ns wait_ns share_pct per_step_ns per_token_ns
-- @empty  no kernel belongs to a step, or none passes the filters; traceql check says why
-- @chart  stacked x=work_ns,wait_ns y=role
-- @title  GPU time by role
WITH chosen AS (
    SELECT step_id, phase, context_tokens + generation_tokens AS tokens
    FROM step
    WHERE
        gpu_dur IS NOT NULL
        AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR phase = $phase::VARCHAR)
        AND ($step::BIGINT IS NULL OR step_id = $step::BIGINT)
),
phase_size AS (
    SELECT phase, COUNT(*) AS steps, SUM(tokens) AS tokens FROM chosen GROUP BY phase
),
ran AS (
    SELECT
        chosen.phase, kernel.role,
        COUNT(*) FILTER (role_call.begins_call) AS calls,
        COUNT(DISTINCT kernel.layer) AS layers,
        SUM(kernel.dur) AS total_ns,
        SUM(role_call.wait_ns) AS wait_ns,
        SUM(kernel.dur - COALESCE(role_call.wait_ns, 0)) AS work_ns
    FROM kernel
    INNER JOIN chosen USING (step_id)
    INNER JOIN role_call ON kernel.id = role_call.kernel_id
    GROUP BY chosen.phase, kernel.role
)
SELECT
    ran.phase, ran.role,
    CAST(ran.work_ns AS BIGINT) AS work_ns,
    CAST(ran.wait_ns AS BIGINT) AS wait_ns,
    100.0 * ran.work_ns / NULLIF(SUM(ran.work_ns) OVER (PARTITION BY ran.phase), 0) AS share_pct,
    1.0 * ran.work_ns / phase_size.steps AS per_step_ns,
    1.0 * ran.work_ns / NULLIF(phase_size.tokens, 0) AS per_token_ns,
    ran.calls,
    1.0 * ran.work_ns / NULLIF(ran.calls, 0) AS mean_ns,
    ran.layers,
    CAST(ran.total_ns AS BIGINT) AS total_ns
FROM ran
INNER JOIN phase_size ON ran.phase IS NOT DISTINCT FROM phase_size.phase
QUALIFY $role::VARCHAR IS NULL OR ran.role = $role::VARCHAR
ORDER BY ran.phase, work_ns DESC, ran.role
