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
WITH listed (position, bar, meaning, advice) AS (
    VALUES
    (
        0,
        'floor',
        'work for the tokens, at the peak of matrix units or memory',
        'Larger batches share the reading of weights among more tokens; narrower numbers, such as fp8, halve bytes and FLOPs.'
    ),
    (
        1,
        'padding',
        'work for rows that belong to no token',
        'Graphs pad a batch to the next captured size: add the usual ones to cudagraph_capture_sizes.'
    ),
    (
        2,
        'small_kernels',
        'what any kernel takes, however little it does',
        'Fuse kernels with their neighbors: fused norms, activations, rope and quantization.'
    ),
    (
        3,
        'below_roofline',
        'kernels of known work, beyond what the peak needs',
        'Try another backend or tuned kernels for the worst roles; a product that tensor parallelism makes too narrow is slow.'
    ),
    (
        4,
        'not_modelled',
        'kernels and transfers whose work or peak is unknown',
        'step.floor says what is missing: often traceql load --model-config, or --peaks for a GPU that is not listed.'
    ),
    (
        5,
        'comm_floor',
        'exposed transfers, as long as the links need for the bytes',
        'Use fewer tensor-parallel ranks, or overlap communication with computing.'
    ),
    (
        6,
        'comm_above_floor',
        'exposed transfers, beyond what the links need',
        'Small messages cost latency: one-shot or fused all-reduces, or fewer and larger messages.'
    ),
    (
        7,
        'comm_unmatched',
        'exposed communication that may be waiting',
        'Load the traces of all ranks: only then waiting and transfer can be separated.'
    ),
    (
        8,
        'waiting',
        'communication that waits for a late rank',
        'time.lost has the root causes, comm.waits the late ranks.'
    ),
    (
        9,
        'expert_imbalance',
        'experts, beyond the mean of the ranks',
        'Balance the experts of the ranks (vLLM: --enable-eplb); ep.balance compares the ranks.'
    ),
    (
        10,
        'copies',
        'memory copies and sets that nothing hides',
        'Copy from pinned memory on another stream while kernels run.'
    ),
    (
        11,
        'idle',
        'nothing runs',
        'idle.by_cause has the causes. Graph replays remove gaps of cause host, larger kernels those of cause launch.'
    ),
    (
        12,
        'other_step',
        'kernels of another step, or of none',
        'Nothing to gain: the GPU spans of steps overlap.'
    )
),
chosen AS (
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
        chosen.phase, waterfall.bar,
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
    summed.phase, summed.bar,
    COALESCE(summed.part, summed.bar) AS part,
    1.0 * summed.total_ns / phase_size.steps AS mean_ns,
    100.0 * summed.total_ns / NULLIF(SUM(summed.total_ns) OVER (PARTITION BY summed.phase), 0) AS share_pct,
    1.0 * summed.total_ns / NULLIF(phase_size.tokens, 0) AS per_token_ns,
    CAST(summed.total_ns AS BIGINT) AS total_ns,
    phase_size.steps, listed.meaning,
    text_for_dialect(
        (SELECT MIN(dialect) FROM trace HAVING MIN(dialect) = MAX(dialect)), listed.advice
    ) AS advice
FROM summed
INNER JOIN listed USING (bar)
INNER JOIN phase_size ON summed.phase IS NOT DISTINCT FROM phase_size.phase
WHERE summed.total_ns <> 0
ORDER BY summed.phase, listed.position, summed.total_ns DESC, part
