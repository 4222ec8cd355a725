-- Devices of an inference engine wait for its hosts, and its configuration, which may be why, is not known.
-- @title   waiting for hosts, cause unknown
-- @group   host
-- @most    notable
-- @after   dp_sync, kv_transfer_wait, small_prefill_chunks
-- @after   host_sync, jit_compile_in_serving, launch_blocking_env, launch_thread_starved, slow_host_rank, allocator
-- @query   idle.host phase=phase
-- @record  Record launch calls (CPU activities) too.
-- @source  own: without the configuration, disabled graphs, graphs of other sizes, scheduling and slow hosts look alike
-- @needs   engine_setting, host_bound_loss, step_count, time_unit, wording
-- @empty_unless time_unit
SELECT
    CASE
        WHEN setting.has_config OR step_count.is_other OR step_count.engine_steps = 0 THEN FALSE
        WHEN step_count.inner_steps = 0 OR NOT step_count.has_launches THEN NULL
        ELSE loss.are_enough AND loss.pct >= 5
    END AS is_confirmed,
    CASE
        WHEN setting.has_config THEN 'run.json has the configuration of the engine'
        WHEN step_count.engine_steps = 0 THEN 'no step of an inference engine was found'
        WHEN NOT step_count.has_launches THEN 'launch calls were not recorded'
        WHEN step_count.inner_steps = 0 THEN 'no step between the first and the last one was recorded'
        WHEN loss.steps = 0 THEN 'no step loses more than a tenth of its work to the host'
        WHEN NOT loss.are_enough THEN format('only {} of {} steps lose more than a tenth of their work to the host', loss.steps, loss.all_steps)
        WHEN loss.pct < 5 THEN format('hosts cost {:.1f}% of a step', loss.pct)
    END AS reason,
    CASE
        WHEN loss.launched_steps > 0.5 * loss.steps
            THEN format('The host launches each kernel of {} decode steps; why is not recorded', loss.launched_steps)
        ELSE format('{} of {} steps wait for the host; why is not recorded', loss.steps, loss.all_steps)
    END AS headline,
    [
        format(
            'A {} loses {:.1f} ms in such a step while the host works, as recorded, and needs {:.1f} ms for its own work.',
            wording.device, loss.lost_ns / 1e6, loss.busy_ns / 1e6
        ),
        CASE
            WHEN loss.launched_steps > 0
                THEN format('{} of them replay no graph: graphs are off, too small, or not supported.', loss.launched_steps)
            WHEN loss.decode_steps > 0 THEN format('{} of them decode, and replay graphs.', loss.decode_steps)
            ELSE 'None of them is a decode step.'
        END
    ] AS evidence,
    CASE
        WHEN step_count.is_vllm THEN 'traceql capture run --model MODEL -o RUN (records the configuration of vLLM, and the same load without the profiler)'
        ELSE 'Look in the configuration of the engine whether graphs are on, and up to which batch; time the same load without the profiler'
    END AS remedy,
    'Whether graphs are off or too small, whether scheduling is asynchronous, and how much of the time the profiler adds.' AS unknowns,
    loss.claims, loss.steps AS samples,
    CASE WHEN loss.launched_steps > 0 THEN 'decode' END AS phase,
    loss.rank, loss.ts, loss.dur
FROM host_bound_loss AS loss
CROSS JOIN step_count
CROSS JOIN engine_setting AS setting
CROSS JOIN wording
