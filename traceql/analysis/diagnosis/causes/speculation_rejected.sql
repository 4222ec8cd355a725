-- The model rejects drafted tokens, and speculation costs more than it gives.
-- @title   speculation rejected
-- @group   scheduling
-- @query   steps.phases
-- @record  Record with traceql capture run, which notes how many drafted tokens the model accepts.
-- @source  a step with k drafts gives 1 + accepted tokens a request; it pays if it takes less than 1 + accepted times a step without
-- @needs   decode_batch, engine_setting, engine_step, scheduler_step, time_scale
WITH drafts AS (
    SELECT
        CAST(SUM(drafted) AS BIGINT) AS drafted,
        CAST(SUM(accepted) AS BIGINT) AS accepted,
        COUNT(*) FILTER (accepted IS NOT NULL AND drafted > 0) AS steps
    FROM scheduler_step
    WHERE drafted IS NOT NULL AND accepted IS NOT NULL
),
timed AS (
    SELECT
        number, tokens, requests,
        engine_step.busy_ns + (span_ns - engine_step.busy_ns) * COALESCE(time_scale.scale, 1) AS ns
    FROM engine_step
    CROSS JOIN time_scale
    WHERE phase = 'decode' AND NOT is_edge
),
-- Steps without drafts, with about as many requests as those with them.
compared AS (
    SELECT
        AVG(ns) FILTER (has_drafts) AS draft_ns,
        AVG(ns) FILTER (NOT has_drafts) AS plain_ns,
        COUNT(DISTINCT number) FILTER (NOT has_drafts) AS plain_steps,
        AVG(tokens / requests - 1) FILTER (has_drafts) AS drafts
    FROM (
        SELECT *, tokens > requests AS has_drafts, AVG(requests) FILTER (tokens > requests) OVER () AS typical
        FROM timed
    )
    WHERE has_drafts OR requests BETWEEN 0.75 * typical AND 1.25 * typical
),
judged AS (
    SELECT
        drafts.drafted, drafts.accepted, drafts.steps,
        drafts.accepted / NULLIF(drafts.drafted, 0) AS rate,
        compared.drafts * rate AS gained,
        compared.drafts AS a_request, compared.draft_ns, compared.plain_ns, compared.plain_steps,
        CASE WHEN compared.plain_steps >= 10 THEN (1 + compared.drafts * rate) * compared.plain_ns / compared.draft_ns END AS speed,
        setting.speculation, setting.drafted_tokens, setting.has_config, setting.async_scheduling,
        batch.steps AS decode_steps, batch.tokens > 1.01 * batch.requests AS shows_drafts
    FROM drafts
    CROSS JOIN compared
    CROSS JOIN engine_setting AS setting
    CROSS JOIN decode_batch AS batch
)
SELECT
    CASE
        WHEN speculation IS NULL AND has_config THEN FALSE
        WHEN speculation IS NULL AND drafted IS NULL AND NOT COALESCE(shows_drafts, FALSE) THEN FALSE
        WHEN drafted IS NULL THEN NULL
        WHEN drafted = 0 THEN FALSE
        WHEN speed IS NOT NULL AND steps >= 10 THEN speed < 1
        WHEN rate >= 0.5 THEN FALSE
        WHEN steps < 10 THEN NULL
        WHEN gained < 0.1 THEN TRUE
    END AS is_confirmed,
    CASE
        WHEN speculation IS NULL AND has_config THEN 'run.json has no speculative_config'
        WHEN speculation IS NULL AND drafted IS NULL AND NOT COALESCE(shows_drafts, FALSE)
            THEN CASE WHEN decode_steps = 0 THEN 'no decode step, but for the first and the last, was recorded' ELSE 'decode steps have one token a request' END
        WHEN drafted IS NULL THEN 'it is unknown how many drafted tokens were accepted; record with traceql capture run'
        WHEN drafted = 0 THEN 'no token was drafted'
        WHEN speed >= 1 AND steps >= 10
            THEN format(
                '{:,} of {:,} drafted tokens were accepted; with drafts, {:.2f} times the tokens per second', accepted, drafted, speed
            )
        WHEN rate >= 0.5
            THEN format('{:,} of {:,} drafted tokens were accepted ({:.0f}%)', accepted, drafted, 100 * rate)
        WHEN steps < 10 THEN format('only {} steps show what was accepted; record more', steps)
        ELSE format(
            '{:,} of {:,} drafted tokens were accepted ({:.1f} a request and step); record the workload without speculation to compare',
            accepted, drafted, gained
        )
    END AS reason,
    format(
        'Of {:,} drafted tokens, {:.0f}% are accepted: {:.2f} a request and step', drafted, 100 * rate, gained
    ) AS headline,
    [
        format('A step drafts {:.1f} tokens a request, and {:.2f} of them are right.', a_request, gained),
        CASE
            WHEN speed IS NOT NULL
                THEN format(
                    'It takes {:.2f} ms; {} steps without drafts take {:.2f} ms. So drafts give {:.2f} times the tokens per second.',
                    draft_ns / 1e6, plain_steps, plain_ns / 1e6, speed
                )
        END
    ] AS evidence,
    concat_ws(
        '; or ',
        'Leave out --speculative-config',
        CASE
            WHEN drafted_tokens > GREATEST(1, round(gained))
                THEN format('"num_speculative_tokens": {} in it (now {})', GREATEST(1, CAST(round(gained) AS BIGINT)), drafted_tokens)
        END
    ) AS remedy,
    CASE
        WHEN speed IS NULL THEN 'How long a step without drafts takes: record the workload without speculation. Real text may be accepted more often.'
        ELSE 'Whether other prompts are accepted more often.'
    END AS unknowns,
    100 / NULLIF(speed, 0) - 100 AS gain_pct,
    speed IS NULL AS is_notable, steps AS samples, 'decode' AS phase,
    CASE WHEN rate >= 0.5 THEN format('speculation ({:.0f}% of drafted tokens accepted)', 100 * rate) END AS fine
FROM judged
