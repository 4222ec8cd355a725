-- The host holds up one kind of step: GPUs are idle until it launches, and other ranks wait for that GPU.
--
-- value is the time that each rank lost this way, as a share of the run. The time is that of the
-- steps in which the host was late, on whichever rank it was lost. The saving is an upper limit: it
-- assumes that these steps would lose as little to the host as decode steps do in graphs.
-- Without enough such steps, and for these steps themselves, it is all the time lost. If the
-- profiler's overhead was measured, its part of the time is taken off value and saving.
-- docs/definitions.md has the quality of the estimate.
-- @title      host-bound steps
-- @notable    5
-- @severe     20
-- @unit       % of the run
-- @threshold  graph_steps = 5  Decode steps in graphs, on each rank, from which their average is a fair comparison.
-- @threshold  share = 0.6  Share of the lost time, and of the steps, from which the advice names one rank's host as slower than the others.
-- @evidence   time.lost phase=phase
-- @advice     See what the host does in these steps: idle.host.
-- @source     own: from 5% of the run, lost time is worth a look
-- @needs      device_timeline, finding_rule, host_doing, host_loss, rank_window, run_window, setting, step_kind, wording
WITH rule AS (
    SELECT thresholds FROM finding_rule WHERE finding = 'host-bound steps'
),
-- The part of all lost time that is not the profiler's, if its overhead was measured.
own_part AS (
    SELECT GREATEST(0, 1 - run_window.ns * setting.overhead_pct / (100 + setting.overhead_pct)
        / NULLIF(run_window.lost_ns, 0)) AS share
    FROM run_window
    CROSS JOIN setting
    WHERE setting.overhead_pct > 0
),
step_loss AS (
    SELECT kind, step_id, SUM(ns) AS ns FROM host_loss GROUP BY ALL
),
-- What a decode step in a graph loses to the host on average.
decode_loss AS (
    SELECT AVG(COALESCE(step_loss.ns, 0)) AS ns
    FROM step_kind
    LEFT JOIN step_loss USING (step_id)
    CROSS JOIN rule
    CROSS JOIN run_window
    WHERE step_kind.phase = 'decode' AND step_kind.graph_mode IS DISTINCT FROM 'none'
    HAVING COUNT(*) >= ANY_VALUE(rule.thresholds['graph_steps'] * run_window.ranks)
),
lost AS (
    SELECT kind, SUM(ns) AS ns, SUM(saved_ns ORDER BY saved_ns) AS saved_ns
    FROM (
        SELECT
            step_loss.kind, step_loss.ns,
            GREATEST(step_loss.ns - CASE WHEN step_loss.kind LIKE 'decode %' THEN 0 ELSE COALESCE(decode_loss.ns, 0) END, 0)
                AS saved_ns
        FROM step_loss
        LEFT JOIN decode_loss ON TRUE
    )
    GROUP BY kind
),
blamed AS (
    SELECT
        kind, root_rank,
        SUM(ns) AS root_ns,
        SUM(idle_ns) AS idle_ns,
        SUM(ns) - SUM(idle_ns) AS wait_ns,
        arg_max(longest_ts, (longest_ns, -longest_ts)) AS longest_ts,
        MAX(longest_ns) AS longest_ns
    FROM host_loss
    GROUP BY kind, root_rank
),
worst AS (
    FROM blamed
    QUALIFY ROW_NUMBER() OVER (PARTITION BY kind ORDER BY root_ns DESC, root_rank) = 1
),
synchronising AS (
    SELECT kind, COALESCE(SUM(sync_ns) / NULLIF(SUM(idle_ns), 0), 0) AS sync_share FROM host_loss GROUP BY kind
),
-- The rank whose host costs most in each step, and in which part of the steps that is the same one.
step_root AS (
    SELECT kind, number, arg_max(root_rank, ns) AS root_rank
    FROM (SELECT kind, number, root_rank, SUM(ns) AS ns FROM host_loss GROUP BY ALL)
    GROUP BY kind, number
),
root_share AS (
    SELECT kind, root_rank, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY kind) AS root_share
    FROM step_root
    GROUP BY kind, root_rank
),
phase AS (
    SELECT kind, list(phase ORDER BY ns DESC, phase) AS phases
    FROM (SELECT kind, phase, SUM(ns) AS ns FROM host_loss WHERE phase IS NOT NULL GROUP BY kind, phase)
    GROUP BY kind
),
counted AS (
    SELECT kind, MAX(steps) AS steps, MAX(most_tokens) AS most_tokens
    FROM (SELECT kind, rank, COUNT(DISTINCT number) AS steps, MAX(tokens) AS most_tokens FROM step_kind GROUP BY kind, rank)
    GROUP BY kind
),
time_of_kind AS (
    SELECT step_kind.kind, SUM(device_timeline.dur / rank_window.devices) AS gpu_ns
    FROM device_timeline
    INNER JOIN step_kind USING (step_id)
    INNER JOIN rank_window ON device_timeline.rank = rank_window.rank
    GROUP BY step_kind.kind
),
whole AS (
    SELECT
        MAX(steps) AS all_steps,
        BOOL_OR(uses_graphs) AS uses_graphs,
        BOOL_OR(is_vllm) AS is_vllm,
        BOOL_OR(has_steps) AS has_steps,
        MAX(graph_tokens) AS graph_tokens
    FROM (
        SELECT
            COUNT(DISTINCT number) AS steps,
            BOOL_OR(graph_mode IS DISTINCT FROM 'none') AS uses_graphs,
            BOOL_OR(source = 'execute_context') AS is_vllm,
            BOOL_OR(source <> 'trace') AS has_steps,
            MAX(tokens) FILTER (graph_mode IS DISTINCT FROM 'none') AS graph_tokens
        FROM step_kind
        GROUP BY rank
    )
),
worded AS (
    SELECT
        lost.kind,
        split_part(lost.kind, ' ', -1) AS graph_mode,
        lost.ns,
        lost.saved_ns / run_window.ranks * COALESCE(own_part.share, 1) AS saving_ns,
        100.0 * lost.ns * COALESCE(own_part.share, 1) / run_window.ranks / run_window.ns AS value,
        run_window.ranks, run_window.devices,
        worst.* EXCLUDE (kind),
        worst.root_ns / lost.ns >= rule.thresholds['share'] AND root_share.root_share >= rule.thresholds['share'] AS is_alone,
        setting.*, wording.*, counted.steps, counted.most_tokens,
        100.0 * time_of_kind.gpu_ns / run_window.ranks / run_window.ns AS steps_pct,
        whole.*,
        whole.has_steps AND whole.all_steps > 1 AS are_several,
        synchronising.sync_share, host_doing.doing, phase.phases,
        CASE WHEN lost.kind NOT LIKE 'decode %' THEN decode_loss.ns END AS decode_ns
    FROM lost
    CROSS JOIN run_window
    CROSS JOIN rule
    CROSS JOIN whole
    CROSS JOIN setting
    CROSS JOIN wording
    LEFT JOIN own_part ON TRUE
    LEFT JOIN decode_loss ON TRUE
    INNER JOIN worst USING (kind)
    LEFT JOIN root_share USING (kind, root_rank)
    INNER JOIN synchronising USING (kind)
    LEFT JOIN phase USING (kind)
    LEFT JOIN counted USING (kind)
    LEFT JOIN time_of_kind USING (kind)
    LEFT JOIN host_doing USING (kind)
)
SELECT
    value,
    ns AS cost_ns,
    saving_ns,
    concat(
        CASE
            WHEN kind = 'outside of steps' THEN 'Kernels outside of steps wait for the host'
            ELSE concat(
                CASE
                    WHEN NOT has_steps THEN 'The program runs'
                    WHEN NOT are_several THEN 'The only step runs'
                    WHEN NOT uses_graphs AND steps = all_steps THEN 'All steps run'
                    WHEN phases IS NULL THEN 'Steps run'
                    ELSE concat(
                        upper(phases[1][1]), phases[1][2:],
                        CASE len(phases) WHEN 1 THEN '' WHEN 2 THEN ' and ' || phases[2] ELSE format(', {} and {}', phases[2], phases[3]) END,
                        ' steps run'
                    )
                END,
                CASE graph_mode
                    WHEN 'none' THEN ' without ' || graphs
                    WHEN 'unrecorded' THEN format(' in {} whose kernels were not recorded', graphs)
                    ELSE format(' in {} {}', graph_mode, graphs)
                END,
                CASE WHEN are_several THEN ' and wait for the host' ELSE ' and waits for the host' END,
                CASE WHEN are_several THEN format(
                    ': {:,} of {:,} steps, which take {:.0f}% of the run', steps, all_steps, steps_pct
                ) ELSE '' END
            )
        END,
        '. ',
        CASE
            WHEN ranks = 1 AND devices > 1
                THEN format('Each {} is idle for {:.1f} ms on average until the host launches its next kernel', device, ns / 1e6)
            WHEN ranks = 1 AND NOT are_several
                THEN format('The {} is idle for {:.1f} ms until the host launches the next kernel', device, ns / 1e6)
            WHEN ranks = 1
                THEN format('In them, the {} is idle for {:.1f} ms until the host launches the next kernel', device, ns / 1e6)
            ELSE format(
                '{} rank loses {:.1f} ms on average until a host launches the next kernel. {:.0f}% of it is due to the host of rank {}: its {} is idle for {:.1f} ms{}',
                CASE WHEN are_several THEN 'In them, each' ELSE 'Each' END,
                ns / ranks / 1e6, 100.0 * root_ns / ns, root_rank, device, idle_ns / 1e6,
                CASE WHEN wait_ns > 0 THEN format(', and other ranks wait {:.1f} ms for it', wait_ns / 1e6) ELSE '' END
            )
        END,
        CASE WHEN sync_share >= 0.5
            THEN format('. For {:.0f}% of the idle time, a host is blocked in a synchronizing call', 100.0 * sync_share)
        ELSE '' END,
        CASE WHEN doing <> '' THEN format('. Most host time: {}', doing) ELSE '' END,
        '.'
    ) AS finding,
    concat(
        CASE
            WHEN decode_ns IS NULL THEN 'if the host never held them up'
            ELSE format(
                'if these steps lost as little to the host as decode steps do in {} ({:.2f} ms each)',
                graphs, decode_ns / 1e6
            )
        END,
        CASE WHEN overhead_pct > 0
            THEN format('; without what the profiler costs, which made this run {:.0f}% slower', overhead_pct)
        ELSE '; less without the profiler' END
    ) AS assumption,
    concat(
        CASE
            WHEN sync_share >= 0.5 THEN concat(
                CASE WHEN async_scheduling IS NOT TRUE THEN 'Use asynchronous scheduling, and avoid' ELSE 'Avoid' END,
                ' .item() and .cpu() between launches.'
            )
            WHEN graph_mode = 'none' AND uses_graphs AND is_vllm AND most_tokens <= graph_tokens
                THEN format('Let these steps run in {}: larger ones do, so see which sizes are captured (cudagraph_capture_sizes) and in which mode (cudagraph_mode).', graphs)
            WHEN graph_mode = 'none' AND uses_graphs AND is_vllm THEN concat(
                format('Let these steps run in {}: raise max_cudagraph_capture_size', graphs),
                CASE WHEN max_cudagraph_capture_size IS NOT NULL
                    THEN format(' (now {:,})', max_cudagraph_capture_size)
                ELSE '' END,
                ', or lower max_num_batched_tokens',
                CASE WHEN max_num_batched_tokens IS NOT NULL
                    THEN format(' (now {:,})', max_num_batched_tokens)
                ELSE '' END,
                ' so that they fit.',
                CASE WHEN most_tokens IS NOT NULL
                    THEN format(' They have up to {:,} tokens', most_tokens) || CASE WHEN graph_tokens IS NOT NULL
                        THEN format('; steps in graphs have up to {:,}.', graph_tokens)
                    ELSE '.' END
                ELSE '' END
            )
            WHEN graph_mode = 'none' AND is_vllm THEN format('Use {}: remove enforce_eager.', graphs)
            WHEN graph_mode = 'none' AND uses_graphs
                THEN format('Let these steps run in {} as others do, compile the model, or give each launch more work.', graphs)
            WHEN graph_mode = 'none' THEN format('Use {}, compile the model, or give each launch more work.', graphs)
            WHEN graph_mode = 'piecewise' AND is_vllm
                THEN format('Use full {} for these steps if the attention backend allows it (cudagraph_mode).', graphs)
            WHEN graph_mode IN ('full', 'unrecorded') AND async_scheduling AND is_vllm
                THEN 'Asynchronous scheduling is on already; look for what else the host does between launches.'
            WHEN graph_mode IN ('full', 'unrecorded') AND is_vllm
                THEN format('Use asynchronous scheduling, so that the host prepares the next step while the {} works.', device)
            ELSE format('Use larger batches, or give the {} more work at a time.', device)
        END,
        CASE
            WHEN ranks = 1 THEN ''
            WHEN is_alone THEN format(
                ' The host of rank {} is slower than the others: pin its process to its own cores; if it is slow only once, record again.',
                root_rank
            )
            ELSE ' The slowest host is not always the same one: give each process cores of its own.'
        END
    ) AS advice,
    CASE WHEN len(phases) = 1 THEN phases[1] END AS phase,
    root_rank AS rank,
    longest_ts AS ts,
    longest_ns AS dur
FROM worded
