-- One row per bar of the average step, or of one step: what the hardware needs of its time, and where the rest went.
--
-- Use it to see what could be gained, and where: "this decode step took 5.4 ms; the hardware needs
-- 3.2; here are the other 2.2". The bars add up to the GPU span of the step, to the nanosecond.
-- The floor is the work that the tokens need, at the peaks of the data sheet or at measured ones; it
-- is a lower bound as long as there is a bar not_modelled (step.floor says what is missing). Each bar
-- says what it means and what to try. All steps of a phase count, or of one rank or step, and
-- mean_ns is that of one step on one rank.
-- @param  phase         VARCHAR = NULL          Only steps of this phase; all by default.
-- @param  step          BIGINT  = NULL          One step only (step_id, as steps.timeline lists it).
-- @param  rank          BIGINT  = NULL          Only this rank; all ranks by default.
-- @param  kind          VARCHAR = 'data sheet'  Whose ceilings: those of data sheets, or measured ones (traceql experiment peaks).
-- @param  by            VARCHAR = 'part'        One row per bar; or (part) below_roofline, not_modelled and comm_above_floor also by role, and idle by cause; or all bars by role or cause.
-- @values phase         prefill decode mixed idle
-- @values kind          'data sheet' measured
-- @values by            bar part role
-- @column phase         VARCHAR  Phase of the steps; NULL if unknown.
-- @column bar           VARCHAR  floor, padding, small_kernels, below_roofline, not_modelled, comm_floor, comm_above_floor, comm_unmatched, waiting, expert_imbalance, copies, idle or other_step.
-- @column part          VARCHAR  Role or, of idle time, cause; else the name of the bar.
-- @column mean_ns       DOUBLE   Time per step and rank, ns; negative in below_roofline if kernels overlap or beat the peak.
-- @column share_pct     DOUBLE   mean_ns in percent of the step's GPU span.
-- @column per_token_ns  DOUBLE   mean_ns per token that the step processed or generated, ns; NULL if its tokens are unknown.
-- @column total_ns      BIGINT   Time of all steps on all ranks, ns.
-- @column steps         BIGINT   Number of steps, counted on each rank.
-- @column meaning       VARCHAR  What the time is.
-- @column advice        VARCHAR  What would make it shorter.
-- @key    phase bar part mean_ns share_pct per_token_ns
-- @empty  no step has kernels, none passes the filters (steps.timeline lists them), or nothing was measured for --kind measured
-- @chart  waterfall x=mean_ns y=part color=bar group=phase
-- @title  What a step needs, and where the rest of its time went
WITH chosen AS (
    SELECT step_id, phase, context_tokens + generation_tokens AS tokens
    FROM step
    WHERE
        gpu_dur IS NOT NULL
        AND ($phase::VARCHAR IS NULL OR phase = $phase::VARCHAR)
        AND ($step::BIGINT IS NULL OR step_id = $step::BIGINT)
        AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
),
phase_size AS (
    SELECT phase, COUNT(*) AS steps, SUM(tokens) AS tokens FROM chosen GROUP BY phase
),
summed AS (
    SELECT
        chosen.phase,
        waterfall.bar,
        CASE
            WHEN
                $by::VARCHAR = 'role'
                OR (
                    $by::VARCHAR = 'part'
                    AND waterfall.bar IN ('below_roofline', 'not_modelled', 'comm_above_floor', 'idle')
                )
                THEN COALESCE(waterfall.cause, waterfall.role)
        END AS part,
        SUM(waterfall.ns) AS total_ns
    FROM waterfall
    INNER JOIN chosen USING (step_id)
    WHERE
        waterfall.kind = $kind::VARCHAR
        AND ($step::BIGINT IS NULL OR waterfall.step_id = $step::BIGINT)  -- so that others are not computed
    GROUP BY ALL
)
SELECT
    summed.phase,
    summed.bar,
    COALESCE(summed.part, summed.bar) AS part,
    1.0 * summed.total_ns / phase_size.steps AS mean_ns,
    100.0 * summed.total_ns / NULLIF(SUM(summed.total_ns) OVER (PARTITION BY summed.phase), 0) AS share_pct,
    1.0 * summed.total_ns / NULLIF(phase_size.tokens, 0) AS per_token_ns,
    CAST(summed.total_ns AS BIGINT) AS total_ns,
    phase_size.steps,
    waterfall_bar.meaning,
    in_words_of(
        (SELECT MIN(dialect) FROM trace HAVING MIN(dialect) = MAX(dialect)), waterfall_bar.advice
    ) AS advice
FROM summed
INNER JOIN waterfall_bar USING (bar)
INNER JOIN phase_size ON summed.phase IS NOT DISTINCT FROM phase_size.phase
WHERE summed.total_ns <> 0
ORDER BY summed.phase, waterfall_bar.position, summed.total_ns DESC, part
