-- The GPUs wait for their hosts to launch, and no more specific cause explains it.
-- @title   slow hosts
-- @group   host
-- @most    notable
-- @after   cuda_graph_sizes, cuda_graphs_off, dp_sync, kv_transfer_wait, launch_thread_starved, slow_host_rank, small_prefill_chunks
-- @after   allocator, garbage_collection, host_sync, jit_compile_in_serving, launch_blocking_env, speculation_no_async
-- @after   piecewise_graphs, structured_output_masks, sync_scheduling
-- @unless  host_bound_unknown
-- @query   idle.host
-- @record  Record launch calls (CPU activities) too.
-- @source  recordings of a model of 12 layers, which its hosts bound without any planted cause
-- @needs   engine_setting, engine_step, host_bound_loss, step_count, time_scale, time_unit, wording
-- @empty_unless time_unit
WITH host AS (
    SELECT MIN(ns) AS fast_ns, MAX(ns) AS slow_ns, COUNT(*) AS ranks
    FROM (SELECT AVG(host_ns) AS ns FROM engine_step WHERE NOT is_edge GROUP BY rank)
),
batch AS (
    SELECT AVG(requests) AS requests FROM engine_step WHERE NOT is_edge
)
SELECT
    CASE
        WHEN NOT step_count.has_launches THEN NULL
        WHEN NOT loss.are_enough OR loss.pct < 2 THEN FALSE
        -- Four trainings lost 26% to 51% of a step to hosts; without the profiler, two of them nothing.
        WHEN time_scale.scale IS NULL OR (step_count.engine_steps > 0 AND NOT setting.has_config) THEN NULL
        ELSE TRUE
    END AS is_confirmed,
    CASE
        WHEN NOT step_count.has_launches THEN 'launch calls were not recorded'
        WHEN loss.steps = 0 THEN 'no step loses more than a tenth of its work to the host'
        WHEN NOT loss.are_enough THEN format('only {} of {} steps lose more than a tenth of their work to the host', loss.steps, loss.all_steps)
        WHEN loss.pct < 2 THEN format('hosts cost {:.1f}% of a step', loss.pct)
        WHEN time_scale.scale IS NULL THEN format(
            'hosts cost {:.0f}% of a step with the profiler, which slows them; time the same steps without it', loss.pct
        )
        WHEN NOT setting.has_config
            THEN format('hosts cost {:.0f}% of a step, and no run.json has the configuration of the engine, which may be why', loss.pct)
    END AS reason,
    CASE
        WHEN loss.steps = loss.all_steps THEN 'Each step waits {saving} for its hosts, which launch too slowly'
        ELSE format('{} of {} steps wait for their hosts, {{saving}} in the mean of all', loss.steps, loss.all_steps)
    END AS headline,
    [
        CASE WHEN host.ranks > 0 THEN format(
            'A step takes the hosts {} ms, and {:.1f} ms of work on the {}, as recorded.',
            CASE
                WHEN host.slow_ns - host.fast_ns < 100000 THEN format('{:.1f}', host.slow_ns / 1e6)
                ELSE format('{:.1f} to {:.1f}', host.fast_ns / 1e6, host.slow_ns / 1e6)
            END,
            time_scale.busy_ns / 1e6, wording.device
        ) END,
        format(
            'With the profiler, such a step loses {:.1f} ms before launches; without it, {:.0f}% of lost time remains. {{saving}} has no more specific cause.',
            loss.lost_ns / 1e6, 100 * time_scale.scale
        )
    ] AS evidence,
    CASE
        WHEN setting.max_num_seqs IS NOT NULL AND batch.requests IS NOT NULL
            THEN format(
                'cpupower frequency-set -g performance; --numa-bind; then more requests a step, which share its cost ({:.0f} run, --max-num-seqs allows {})',
                batch.requests, setting.max_num_seqs
            )
        WHEN step_count.is_other THEN 'torch.compile, which launches fewer kernels; larger batches; cpupower frequency-set -g performance'
        ELSE 'cpupower frequency-set -g performance; numactl --cpunodebind=N --membind=N; larger batches'
    END AS remedy,
    'How fast the cores are, and what else runs on them. Idle time is an upper limit of the saving.' AS unknowns,
    loss.claims, loss.steps AS samples, loss.rank, loss.ts, loss.dur
FROM host_bound_loss AS loss
CROSS JOIN host
CROSS JOIN batch
CROSS JOIN step_count
CROSS JOIN time_scale
CROSS JOIN engine_setting AS setting
CROSS JOIN wording
