-- The method of speculation excludes asynchronous scheduling, so devices are idle between steps.
-- @title   speculation without asynchronous scheduling
-- @group   host
-- @after   cuda_graphs_off, cuda_graph_sizes, launch_thread_starved, slow_host_rank
-- @query   idle.by_cause
-- @record  Record with traceql capture run, which notes the configuration of speculation.
-- @source  vLLM 0.25, config/vllm.py; a run with n-gram speculation was idle for 58% of its steps, at an acceptance of 100%
-- @needs   engine_setting, engine_step, integer_at, log_message, scheduler_step, sequential_loss, step_count, time_scale, wording
WITH setting AS (
    SELECT
        *,
        speculation NOT IN ('draft_model', 'dspark', 'dflash', 'eagle', 'eagle3', 'extract_hidden_states', 'mtp', 'ngram_gpu')
        AND NOT ends_with(speculation, '_mtp') AS excludes_async
    FROM engine_setting
),
log_line AS (
    SELECT COUNT(*) > 0 AS is_there FROM log_message WHERE contains(text, 'Async scheduling not supported with')
),
draft AS (
    SELECT SUM(drafted) AS drafted, SUM(accepted) AS accepted FROM scheduler_step WHERE accepted IS NOT NULL
),
host AS (
    SELECT AVG(host_ns) AS ns FROM engine_step WHERE NOT is_edge
)
SELECT
    CASE
        WHEN step_count.is_other THEN FALSE
        WHEN NOT setting.has_config THEN NULL
        WHEN setting.speculation IS NULL OR NOT setting.excludes_async OR setting.async_scheduling THEN FALSE
        WHEN setting.async_scheduling IS NULL AND NOT log_line.is_there THEN NULL
        WHEN loss.pct < 1 AND NOT step_count.has_launches THEN NULL
        ELSE loss.pct >= 1
    END AS is_confirmed,
    CASE
        WHEN step_count.is_other THEN 'no step is one of an inference engine'
        WHEN NOT setting.has_config THEN 'no run.json says whether the engine speculates'
        WHEN setting.speculation IS NULL THEN 'the engine does not speculate'
        WHEN setting.async_scheduling THEN 'scheduling is asynchronous'
        WHEN NOT setting.excludes_async THEN format('speculation with {} allows asynchronous scheduling', setting.speculation)
        WHEN setting.async_scheduling IS NULL AND NOT log_line.is_there THEN 'run.json does not say whether scheduling is asynchronous'
        WHEN loss.pct < 1 AND NOT step_count.has_launches THEN 'launch calls, which show what is lost to the host, were not recorded'
        WHEN loss.pct < 1 THEN 'it would save less than 1% of a step'
    END AS reason,
    format(
        'Speculation with {} excludes asynchronous scheduling: each step waits {{saving}} for its host', setting.speculation
    ) AS headline,
    [
        format(
            'In run.json, the method is {} and async_scheduling false{}.', setting.speculation,
            CASE WHEN log_line.is_there THEN '; the log says "Async scheduling not supported with"' ELSE '' END
        ),
        format(
            'A {} has nothing to do for {:.1f} ms of each step, as recorded: the host drafts and schedules after the step before, not during it.',
            wording.device, loss.lost_ns / 1e6
        ),
        CASE WHEN draft.accepted >= 0.5 * draft.drafted THEN format(
            'Keep speculation: {:,} of {:,} drafted tokens were accepted ({:.0f}%).',
            draft.accepted, draft.drafted, 100 * draft.accepted / draft.drafted
        ) END
    ] AS evidence,
    CASE
        WHEN setting.speculation = 'ngram' THEN format(
            '--speculative-config ''{{"method":"ngram_gpu","num_speculative_tokens":{}{}{}}}''',
            COALESCE(setting.drafted_tokens, 4),
            COALESCE(format(',"prompt_lookup_max":{}', integer_at(setting.config, '$.speculative_config.prompt_lookup_max')), ''),
            COALESCE(format(',"prompt_lookup_min":{}', integer_at(setting.config, '$.speculative_config.prompt_lookup_min')), '')
        )
        ELSE format(
            '--speculative-config ''{{"method":"ngram_gpu","num_speculative_tokens":{}}}'', or eagle3 or mtp if this model has such a head',
            COALESCE(setting.drafted_tokens, 4)
        )
    END AS remedy,
    'How many tokens the other method gets accepted: compare tokens per second. A host that needs longer than the kernels leaves some idle time.'
        AS unknowns,
    -- What hosts need beyond the work of the device remains.
    GREATEST(0, 1 - GREATEST(0, host.ns - time_scale.busy_ns) / NULLIF(loss.lost_ns, 0)) AS least_share,
    loss.claims, loss.steps AS samples, 'decode' AS phase, loss.rank, loss.ts, loss.dur
FROM setting
CROSS JOIN log_line
CROSS JOIN draft
CROSS JOIN sequential_loss AS loss
CROSS JOIN host
CROSS JOIN time_scale
CROSS JOIN step_count
CROSS JOIN wording
