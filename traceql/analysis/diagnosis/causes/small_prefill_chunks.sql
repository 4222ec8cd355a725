-- Prompts are processed in many small steps, each of which keeps the GPU busy for a small part.
-- @title   small prefill chunks
-- @group   scheduling
-- @after   cuda_graphs_off, slow_host_rank
-- @query   steps.timeline
-- @record  Record with traceql capture run, which notes max_num_batched_tokens and the chunks of each prompt.
-- @source  a recording with steps of few tokens, in which the GPU works 2 of 16 ms of a step with prompts
-- @needs   engine_setting, engine_step, request, request_step, scheduler_step, time_scale, time_unit, wording
WITH limits AS (
    SELECT
        COALESCE((SELECT MAX(max_scheduled_tokens) FROM scheduler_step), max_num_batched_tokens) AS tokens,
        8192 AS wanted,
        long_prefill_threshold, max_capture_size
    FROM engine_setting
),
prompt_step AS (
    SELECT
        engine_step.*,
        engine_step.busy_ns + (span_ns - engine_step.busy_ns) * COALESCE(time_scale.scale, 1) AS unprofiled_ns,
        tokens >= 0.9 * (SELECT tokens FROM limits) AS is_full
    FROM engine_step
    CROSS JOIN time_scale
    WHERE phase IN ('prefill', 'mixed') AND NOT is_edge
),
counted AS (
    SELECT
        COUNT(DISTINCT number) AS steps,
        COUNT(DISTINCT number) FILTER (is_full) AS full_steps,
        AVG(span_ns) FILTER (is_full) AS span_ns,
        AVG(busy_ns) FILTER (is_full) AS busy_ns,
        SUM(busy_ns) FILTER (is_full) / NULLIF(SUM(unprofiled_ns) FILTER (is_full), 0) AS busy_share
    FROM prompt_step
),
-- How many steps a prompt takes, of those that are not known to have begun earlier.
prompt AS (
    SELECT
        request_step.request_id,
        COUNT(DISTINCT request_step.step_id) / COUNT(DISTINCT request_step.rank) AS chunks,
        ANY_VALUE(request.prompt_tokens) AS tokens
    FROM request_step
    INNER JOIN request ON request_step.run = request.run AND request_step.request_id = request.request_id AND request.profiled
    WHERE request_step.computed_tokens < request.prompt_tokens
    GROUP BY request_step.request_id
),
prompts AS (
    SELECT COUNT(*) AS prompts, AVG(chunks) AS chunks, AVG(tokens) AS tokens
    FROM prompt
    WHERE tokens > (SELECT tokens FROM limits)
),
saved AS (
    SELECT LEAST(1 - limits.tokens / limits.wanted, 1 - 1 / NULLIF(prompts.chunks, 0)) AS share
    FROM limits
    CROSS JOIN prompts
),
claimed AS (
    SELECT
        list({'unit': unit, 'ns': CAST(ns * saved.share AS BIGINT)} ORDER BY unit) AS claims,
        arg_max(time_unit.rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts,
        MAX(longest_ns) AS dur
    FROM time_unit
    INNER JOIN prompt_step ON time_unit.root_step_id = prompt_step.step_id
    CROSS JOIN saved
    WHERE time_unit.part = 'lost' AND prompt_step.is_full
)
SELECT
    CASE
        WHEN counted.steps = 0 THEN FALSE
        WHEN limits.tokens IS NULL THEN NULL
        WHEN limits.tokens >= limits.wanted THEN FALSE
        WHEN counted.full_steps < 0.5 * counted.steps THEN FALSE
        WHEN counted.busy_share >= 0.5 THEN FALSE
        WHEN prompts.chunks IS NULL THEN NULL
        ELSE prompts.chunks >= 3
    END AS is_confirmed,
    CASE
        WHEN counted.steps = 0 THEN 'no step, but for the first and the last, has prompts'
        WHEN limits.tokens IS NULL THEN 'no run.json names max_num_batched_tokens; record with traceql capture run'
        WHEN limits.tokens >= limits.wanted THEN format('steps may have {:,} tokens', limits.tokens)
        WHEN counted.full_steps < 0.5 * counted.steps
            THEN format('{} of {} steps with prompts have the {:,} tokens that they may have', counted.full_steps, counted.steps, limits.tokens)
        WHEN counted.busy_share >= 0.5
            THEN format('full steps keep the {} busy for {:.0f}% of their time', wording.device, 100 * counted.busy_share)
        WHEN prompts.chunks IS NULL THEN 'it is unknown how many steps a prompt takes; record with traceql capture run'
        WHEN prompts.chunks < 3 THEN format('a long prompt takes {:.1f} steps', prompts.chunks)
    END AS reason,
    format(
        'Prompts take {:.0f} steps of {:,} tokens; the {} works {:.0f}% of their time',
        prompts.chunks, limits.tokens, wording.device, 100 * counted.busy_share
    ) AS headline,
    [
        format('A step with {:,} tokens takes {:.1f} ms, {:.1f} ms of it work, as recorded.', limits.tokens, counted.span_ns / 1e6, counted.busy_ns / 1e6),
        format('{} prompts of {:,.0f} tokens on average take {:.1f} steps each.', prompts.prompts, prompts.tokens, prompts.chunks),
        CASE
            WHEN limits.tokens > limits.max_capture_size
                THEN format('No graph is captured for steps above {:,} tokens.', limits.max_capture_size)
        END
    ] AS evidence,
    concat(
        format('--max-num-batched-tokens {}', limits.wanted),
        CASE WHEN limits.long_prefill_threshold > 0 THEN ' --long-prefill-token-threshold 0' END
    ) AS remedy,
    'How long a step of that many tokens delays requests that generate, and the memory of its activations.' AS unknowns,
    claimed.claims, counted.full_steps AS samples, 'prefill' AS phase, claimed.rank, claimed.ts, claimed.dur
FROM counted
CROSS JOIN limits
CROSS JOIN prompts
CROSS JOIN claimed
CROSS JOIN wording
