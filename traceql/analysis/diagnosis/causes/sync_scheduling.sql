-- Asynchronous scheduling is off, so the host prepares a step only after the one before has ended.
-- @title   synchronous scheduling
-- @group   host
-- @after   cuda_graphs_off, cuda_graph_sizes, launch_thread_starved, piecewise_graphs, slow_host_rank
-- @unless  speculation_no_async
-- @query   idle.by_cause
-- @record  Record with traceql capture run, which notes the configuration of the scheduler.
-- @source  vLLM 0.25, config/vllm.py: when asynchronous scheduling is on by default, and what excludes it
-- @needs   engine_setting, log_message, sequential_loss, step_count, wording
WITH setting AS (
    SELECT
        *,
        config ->> '$.model_config.runner_type' = 'pooling' AS is_pooling,
        TRY_CAST(config ->> '$.speculative_config.disable_padded_drafter_batch' AS BOOLEAN) AS unpadded_drafter,
        speculation NOT IN ('draft_model', 'dspark', 'dflash', 'eagle', 'eagle3', 'extract_hidden_states', 'mtp', 'ngram_gpu')
        AND NOT ends_with(speculation, '_mtp') AS speculation_excludes
    FROM engine_setting
),
-- What vLLM says when it turns it off by itself.
said AS (
    SELECT
        COUNT(*) FILTER (contains(text, 'distributed executor backend')) > 0 AS is_executor,
        COUNT(*) FILTER (contains(text, 'DeepEP')) > 0 AS is_deep_ep,
        COUNT(*) FILTER (contains(text, 'pipeline parallelism')) > 0 AS is_pipeline
    FROM log_message
    WHERE contains(text, 'sync scheduling')
)
SELECT
    CASE
        WHEN step_count.is_other THEN FALSE
        WHEN setting.async_scheduling IS NULL THEN NULL
        WHEN setting.async_scheduling OR setting.is_pooling OR setting.speculation_excludes THEN FALSE
        WHEN setting.pp > 1 OR said.is_pipeline OR said.is_deep_ep THEN FALSE
        WHEN loss.pct < 1 AND NOT step_count.has_launches THEN NULL
        ELSE loss.pct >= 1
    END AS is_confirmed,
    CASE
        WHEN step_count.is_other THEN 'no step is one of an inference engine'
        WHEN NOT setting.has_config THEN 'no run.json says whether scheduling is asynchronous'
        WHEN setting.async_scheduling IS NULL THEN 'run.json does not say whether scheduling is asynchronous'
        WHEN setting.async_scheduling THEN 'scheduling is asynchronous'
        WHEN setting.is_pooling THEN 'vLLM schedules pooling models synchronously, because that is faster'
        WHEN setting.speculation_excludes THEN format('speculation with {} excludes asynchronous scheduling', setting.speculation)
        WHEN setting.pp > 1 OR said.is_pipeline THEN 'pipeline parallelism excludes asynchronous scheduling'
        WHEN said.is_deep_ep THEN 'vLLM turned it off, because DeepEP excludes it'
        WHEN loss.pct < 1 AND NOT step_count.has_launches THEN 'launch calls, which show what is lost to the host, were not recorded'
        WHEN loss.pct < 1 THEN 'asynchronous scheduling would save less than 1% of a step'
    END AS reason,
    'Asynchronous scheduling is off: each step waits {saving} for its host' AS headline,
    [
        'In run.json, async_scheduling is false.',
        format(
            'A {} has nothing to do for {:.1f} ms of each step, as recorded: the host prepares a step after the one before, not during it.',
            wording.device, loss.lost_ns / 1e6
        )
    ] AS evidence,
    CASE
        WHEN setting.unpadded_drafter
            THEN 'leave disable_padded_drafter_batch out of --speculative-config: asynchronous scheduling needs padded batches'
        WHEN said.is_executor THEN '--distributed-executor-backend mp (the one in use does not support asynchronous scheduling)'
        ELSE 'vllm serve ... without --no-async-scheduling (LLM(async_scheduling=True))'
    END AS remedy,
    'A host that needs longer than the kernels leaves some idle time.' AS unknowns,
    loss.claims, loss.steps AS samples, loss.rank, loss.ts, loss.dur
FROM setting
CROSS JOIN said
CROSS JOIN sequential_loss AS loss
CROSS JOIN step_count
CROSS JOIN wording
