-- One row per thing that costs much, the costliest first; none where nothing is wrong.
--
-- Each has a number, the query that shows it, and what to try. What counts as much is data
-- (queries/rules/findings.csv, table finding_rule): notable from one value on, severe from another.
-- Percentages of the run are of the ranks' mean GPU span.
-- @column rank_order  BIGINT   Place, from 1.
-- @column severity    VARCHAR  severe or notable.
-- @column kind        VARCHAR  Kind of finding; as in finding_rule.
-- @column finding     VARCHAR  One sentence, with its number.
-- @column value       DOUBLE   The number that was compared with the thresholds.
-- @column unit        VARCHAR  Its unit.
-- @column cost_ns     BIGINT   Time that it costs all ranks together, as far as that is known, ns.
-- @column evidence    VARCHAR  The command that shows it; put the database in place of DB.
-- @column try         VARCHAR  What to try.
-- @chart  none
WITH rank_window AS (
    SELECT
        rank,
        SUM(dur) AS ns,
        COALESCE(SUM(dur) FILTER (NOT (compute OR comm OR copy)), 0) AS idle_ns,
        COALESCE(SUM(dur) FILTER (copy AND NOT compute AND NOT comm), 0) AS copy_ns
    FROM device_state
    GROUP BY rank
),
run_window AS (
    SELECT AVG(ns) AS ns, COUNT(*) AS ranks FROM rank_window
),
-- What passes between pipeline stages waits for the pipeline, not for a late rank; what the first
-- operation waits for is not recorded; and without a common clock there is no waiting to speak of.
within_stage AS (
    SELECT collective.*, GREATEST(collective.transfer_ns - hidden_operation.hidden_ns, 0) AS exposed_ns
    FROM collective
    INNER JOIN layout USING (rank)
    INNER JOIN arrival USING (kernel_id)
    INNER JOIN hidden_operation USING (kernel_id)
    WHERE
        NOT arrival.is_first
        AND collective.uncertainty_ns <= collective.wait_ns + collective.transfer_ns
        AND collective.op NOT IN ('send', 'recv')
        AND (collective.op <> 'broadcast' OR COALESCE(layout.pp_size, 1) = 1)
),
attended AS (
    SELECT
        group_ranks, rank, group_size, SUM(wait_ns) AS wait_ns,
        SUM(transfer_ns) AS transfer_ns, SUM(exposed_ns) AS exposed_ns
    FROM within_stage
    GROUP BY group_ranks, rank, group_size
),
moving AS (
    SELECT SUM(exposed_ns) AS all_ns, SUM(exposed_ns) / ANY_VALUE(run_window.ranks) AS ns
    FROM attended
    CROSS JOIN run_window
    HAVING COUNT(*) > 0
),
caused AS (
    SELECT within_stage.group_ranks, straggler.rank, straggler.cause, SUM(straggler.waited_ns) AS ns
    FROM straggler
    INNER JOIN within_stage USING (kernel_id)
    -- A rank that another group held up is not the one that is late.
    WHERE straggler.cause <> 'communication'
    GROUP BY ALL
),
-- Of each group, the rank that cost it most.
blamed AS (
    SELECT
        group_ranks,
        rank,
        SUM(ns) AS ns,
        SUM(ns) / SUM(SUM(ns)) OVER (PARTITION BY group_ranks) AS share,
        arg_max(cause, ns) AS cause,
        100.0 * MAX(ns) / SUM(ns) AS cause_pct
    FROM caused
    GROUP BY group_ranks, rank
    QUALIFY ROW_NUMBER() OVER (PARTITION BY group_ranks ORDER BY SUM(ns) DESC, rank) = 1
),
-- It alone is late where the others' waiting is mostly for it, and more than its equal share.
waiting AS (
    SELECT
        blamed.*,
        blamed.ns / (attended.group_size - 1) AS each_ns,
        blamed.share >= 0.6 AND blamed.share * attended.group_size >= 1.4 AS is_alone,
        SUM(attended.wait_ns) AS all_ns,
        AVG(attended.transfer_ns) AS transfer_ns,
        COUNT(*) AS ranks,
        string_agg(printf('%.1f', attended.wait_ns / 1e6), ', ' ORDER BY attended.rank) AS all_ms,
        string_agg(CAST(attended.rank AS VARCHAR), ', ' ORDER BY attended.rank) AS all_ranks,
        string_agg(printf('%.1f', attended.wait_ns / 1e6), ', ' ORDER BY attended.rank)
            FILTER (attended.rank <> blamed.rank) AS other_ms,
        string_agg(CAST(attended.rank AS VARCHAR), ', ' ORDER BY attended.rank)
            FILTER (attended.rank <> blamed.rank) AS other_ranks
    FROM blamed
    INNER JOIN attended USING (group_ranks)
    WHERE attended.group_size > 1
    GROUP BY ALL
),
idlest AS (
    SELECT rank, idle_ns, ns, SUM(idle_ns) OVER () AS all_ns
    FROM rank_window
    QUALIFY ROW_NUMBER() OVER (ORDER BY idle_ns / ns DESC, rank) = 1
),
idle_cause AS (
    SELECT
        rank,
        arg_max(cause, ns) AS cause,
        MAX(ns) AS ns,
        COALESCE(SUM(ns) FILTER (cause = 'sync'), 0) AS sync_ns
    FROM (SELECT rank, cause, SUM(dur) AS ns FROM gap GROUP BY rank, cause)
    GROUP BY rank
),
idle_doing AS (
    SELECT rank, arg_max(name, ns) AS name, MAX(ns) AS ns
    FROM (SELECT rank, name, SUM(ns) AS ns FROM host_gap GROUP BY rank, name)
    GROUP BY rank
),
-- Of gaps that the host caused, the time in which the next kernel had been launched already.
idle_launched AS (
    SELECT
        gap.rank,
        SUM(gap.dur - LEAST(GREATEST(launch.ts + launch.dur - gap.ts, 0), gap.dur)) AS ns
    FROM gap
    INNER JOIN kernel ON gap.next_kernel_id = kernel.id
    INNER JOIN launch ON kernel.launch_id = launch.id
    WHERE gap.cause IN ('host', 'sync')
    GROUP BY gap.rank
),
worst_sync AS (
    SELECT idle_cause.rank, idle_cause.sync_ns, rank_window.ns
    FROM idle_cause
    INNER JOIN rank_window USING (rank)
    QUALIFY ROW_NUMBER() OVER (ORDER BY idle_cause.sync_ns / rank_window.ns DESC, idle_cause.rank) = 1
),
-- Of each phase, the part of its steps that is moving bytes within a stage.
tensor AS (
    SELECT
        step.phase,
        ANY_VALUE(layout.tp_size) AS tp_size,
        SUM(moved.transfer_ns) AS transfer_ns,
        SUM(step.gpu_dur) AS step_ns
    FROM step
    INNER JOIN layout USING (rank)
    LEFT JOIN (
        SELECT kernel.step_id, SUM(within_stage.exposed_ns) AS transfer_ns
        FROM within_stage
        INNER JOIN kernel ON within_stage.kernel_id = kernel.id
        GROUP BY kernel.step_id
    ) AS moved USING (step_id)
    -- Without a model nobody knows what kind of parallelism a group serves.
    WHERE layout.tp_size > 1 AND step.gpu_dur > 0 AND step.rank IN (SELECT rank FROM rank_model)
    GROUP BY step.phase
),
-- Messages that should fill a link.
large_messages AS (
    SELECT
        collective.op,
        group_link.link,
        group_link.peak_gbps,
        quantile_cont(collective.busbw_gbps, 0.5) AS busbw_gbps,
        MIN(collective.bytes) AS bytes,
        SUM(collective.transfer_ns) AS transfer_ns
    FROM collective
    INNER JOIN group_link USING (group_ranks)
    WHERE collective.bytes >= 16 * 1024 * 1024 AND collective.reliable
        AND group_link.peak_gbps IS NOT NULL
        AND collective.op NOT IN ('send', 'recv', 'broadcast')
    GROUP BY collective.op, group_link.link, group_link.peak_gbps
),
decode AS (
    SELECT
        100.0 * COUNT(*) FILTER (graph_mode = 'none') / COUNT(*) AS pct,
        COUNT(*) FILTER (graph_mode = 'none') AS eager,
        COUNT(*) AS steps
    FROM step
    WHERE phase = 'decode' AND graph_mode IS NOT NULL
    HAVING COUNT(*) > 0
),
replay AS (
    SELECT
        kernel.launch_id,
        MAX(kernel.grid[1]) FILTER (kernel.name LIKE '%reshape_and_cache%') AS captured,
        ANY_VALUE(step.context_tokens + step.generation_tokens) AS tokens
    FROM kernel
    INNER JOIN step USING (step_id)
    WHERE kernel.in_graph
    GROUP BY kernel.launch_id
),
padding AS (
    SELECT SUM(captured - tokens) AS padded, SUM(captured) AS captured
    FROM replay
    WHERE captured >= tokens
),
expert AS (
    SELECT rank, SUM(dur) AS ns
    FROM kernel
    WHERE role IN ('experts_gate_up', 'experts_down')
    GROUP BY rank
),
expert_balance AS (
    SELECT arg_max(rank, ns) AS rank, MAX(ns) AS most_ns, AVG(ns) AS mean_ns
    FROM expert
    HAVING COUNT(*) > 1
),
pipeline AS (
    SELECT
        MAX(layout.pp_size) AS stages,
        AVG(100.0 * (1 - COALESCE(computed.ns, 0) / rank_window.ns)) AS lost_pct,
        SUM(rank_window.ns - COALESCE(computed.ns, 0)) AS lost_ns
    FROM layout
    INNER JOIN rank_window USING (rank)
    LEFT JOIN (SELECT rank, SUM(dur) AS ns FROM device_state WHERE compute GROUP BY rank) AS computed
        USING (rank)
    HAVING MAX(layout.pp_size) > 1
),
sampled AS (
    SELECT
        COUNT(*) FILTER (throttled) AS throttled,
        COUNT(*) AS samples
    FROM telemetry
    WHERE in_window
),
operations AS (
    SELECT
        COUNT(*) FILTER (wait_ns IS NULL) AS unmatched,
        COUNT(*) AS operations
    FROM collective
    WHERE group_size > 1
),
unclassified AS (
    SELECT SUM(dur) FILTER (category = 'other') AS ns, SUM(dur) AS all_ns FROM kernel
),
measured AS (
    SELECT
        'late rank' AS kind,
        100.0 * waiting.each_ns / run_window.ns AS value,
        waiting.ns AS cost_ns,
        format(
            'Rank {} is late: {} {} waited {} ms in collectives, {:.0f}% of all waiting is for rank {}, because {} ({:.0f}%). Moving bytes took {:.1f} ms per rank.',
            waiting.rank, CASE waiting.ranks WHEN 2 THEN 'rank' ELSE 'ranks' END,
            waiting.other_ranks, waiting.other_ms, 100 * waiting.share, waiting.rank,
            CASE waiting.cause
                WHEN 'host' THEN 'its host launched late'
                WHEN 'kernel' THEN 'its kernels took longer'
                WHEN 'preemption' THEN 'kernels of another stream held it up'
                WHEN 'copy' THEN 'it copied memory meanwhile'
                WHEN 'launch' THEN 'its launched kernels started late'
                ELSE 'of something that the trace does not show'
            END,
            waiting.cause_pct, waiting.transfer_ns / 1e6
        ) AS finding,
        waiting.rank,
        NULL AS phase
    FROM waiting
    CROSS JOIN run_window
    WHERE waiting.is_alone
    UNION ALL
    SELECT
        'uneven waiting', 100.0 * waiting.all_ns / waiting.ranks / run_window.ns, waiting.all_ns,
        format(
            'Ranks {} waited {} ms for each other in collectives, for no single rank; moving bytes took {:.1f} ms per rank.',
            waiting.all_ranks, waiting.all_ms, waiting.transfer_ns / 1e6
        ),
        NULL, NULL
    FROM waiting
    CROSS JOIN run_window
    WHERE NOT waiting.is_alone
    UNION ALL
    SELECT
        'communication', 100.0 * moving.ns / run_window.ns, moving.all_ns,
        format(
            'Moving bytes in collectives that computing does not hide takes {:.1f} ms per rank, {:.0f}% of the run, waiting not counted.',
            moving.ns / 1e6, 100.0 * moving.ns / run_window.ns
        ),
        NULL, NULL
    FROM moving
    CROSS JOIN run_window
    UNION ALL
    SELECT
        'GPU idle', 100.0 * idlest.idle_ns / idlest.ns, idlest.all_ns,
        format(
            'The GPU of rank {} is idle for {:.1f} ms, {:.0f}% of its span; {:.0f}% of that is of cause {}{}{}.',
            idlest.rank, idlest.idle_ns / 1e6, 100.0 * idlest.idle_ns / idlest.ns,
            100.0 * idle_cause.ns / idlest.idle_ns, idle_cause.cause,
            CASE
                WHEN idle_doing.ns > 0.1 * idlest.idle_ns
                    THEN format(
                        ', {:.0f}% while its host was in {}',
                        100.0 * idle_doing.ns / idlest.idle_ns, idle_doing.name
                    )
                ELSE ''
            END,
            CASE
                WHEN idle_launched.ns > 0.5 * idlest.idle_ns
                    THEN format(
                        '; but for {:.0f}% the next kernel had been launched, and why it did not start is not known',
                        100.0 * idle_launched.ns / idlest.idle_ns
                    )
                ELSE ''
            END
        ),
        idlest.rank, NULL
    FROM idlest
    INNER JOIN idle_cause USING (rank)
    LEFT JOIN idle_doing USING (rank)
    LEFT JOIN idle_launched USING (rank)
    UNION ALL
    SELECT
        'TP efficiency', 100.0 * transfer_ns / step_ns, transfer_ns,
        format(
            'Tensor parallelism over {} ranks spends {:.0f}% of {} steps moving bytes: at best {:.0f}% of the time is model work.',
            tp_size, 100.0 * transfer_ns / step_ns, COALESCE(phase, 'all'),
            100.0 - 100.0 * transfer_ns / step_ns
        ),
        NULL, phase
    FROM tensor
    UNION ALL
    SELECT
        'PP efficiency', lost_pct, lost_ns,
        format(
            'Pipeline of {} stages: each computes for only {:.0f}% of its span.', stages, 100 - lost_pct
        ),
        NULL, NULL
    FROM pipeline
    UNION ALL
    SELECT
        'link use', 100.0 * (1 - busbw_gbps / peak_gbps), transfer_ns,
        format(
            '{} of {:.0f} MiB and more reach {:.0f} GB/s bus bandwidth, {:.0f}% of {} ({:.0f} GB/s).',
            op, bytes / 1048576, busbw_gbps, 100.0 * busbw_gbps / peak_gbps, link, peak_gbps
        ),
        NULL, NULL
    FROM large_messages
    UNION ALL
    SELECT
        'decode without graphs', pct, NULL,
        format('{} of {} decode steps ran without a CUDA graph.', eager, steps), NULL, 'decode'
    FROM decode
    UNION ALL
    SELECT
        'graph padding', 100.0 * padded / captured, NULL,
        format(
            'Graph replays computed {} tokens, of which {:.0f}% were padding.',
            captured, 100.0 * padded / captured
        ),
        NULL, NULL
    FROM padding
    UNION ALL
    SELECT
        'exposed copies', 100.0 * SUM(copy_ns) / SUM(ns), SUM(copy_ns),
        format('Memory copies that nothing hides take {:.1f} ms per rank.', AVG(copy_ns) / 1e6),
        NULL, NULL
    FROM rank_window
    UNION ALL
    SELECT
        'expert imbalance', 100.0 * (most_ns / mean_ns - 1), most_ns - mean_ns,
        format(
            'Rank {} computes its experts for {:.1f} ms, the mean rank for {:.1f} ms.',
            rank, most_ns / 1e6, mean_ns / 1e6
        ),
        rank, NULL
    FROM expert_balance
    UNION ALL
    SELECT
        'host synchronisation', 100.0 * sync_ns / ns, sync_ns,
        format(
            'Rank {} waits {:.1f} ms with an empty GPU because its host is blocked in a synchronising call.',
            rank, sync_ns / 1e6
        ),
        rank, NULL
    FROM worst_sync
    UNION ALL
    SELECT
        'throttling', 100.0 * throttled / samples, NULL,
        format('The GPUs were throttled in {} of {} samples.', throttled, samples), NULL, NULL
    FROM sampled
    WHERE samples > 0
    UNION ALL
    SELECT
        'profiler overhead', overhead_pct, profiled_ns - unprofiled_ns,
        format('The profiler made this run {:.0f}% slower.', overhead_pct), NULL, NULL
    FROM run
    UNION ALL
    SELECT
        'unmatched operations', 100.0 * unmatched / operations, NULL,
        format(
            '{} of {} collective operations were not found on all their ranks: their waiting is not known.',
            unmatched, operations
        ),
        NULL, NULL
    FROM operations
    WHERE operations > 0
    UNION ALL
    SELECT
        'unclassified time', 100.0 * unclassified.ns / unclassified.all_ns,
        unclassified.ns,
        format('No rule classifies {:.1f} ms of GPU time.', unclassified.ns / 1e6), NULL, NULL
    FROM unclassified
    UNION ALL
    SELECT
        'broken ledger', COUNT(*), NULL,
        CASE COUNT(*) WHEN 1 THEN 'A check' ELSE COUNT(*) || ' checks' END
        || ' of the ledger failed.',
        NULL, NULL
    FROM ledger
    WHERE NOT ok
)
SELECT
    ROW_NUMBER() OVER in_order AS rank_order,
    CASE WHEN measured.value >= finding_rule.severe THEN 'severe' ELSE 'notable' END AS severity,
    measured.kind,
    measured.finding,
    CAST(measured.value AS DOUBLE) AS value,
    finding_rule.unit,
    CAST(measured.cost_ns AS BIGINT) AS cost_ns,
    replace(
        replace(replace(finding_rule.evidence, '{db}', 'DB'), '{rank}', COALESCE(CAST(measured.rank AS VARCHAR), '')),
        '{phase}', COALESCE(measured.phase, 'decode')
    ) AS evidence,
    finding_rule.advice AS "try"
FROM measured
INNER JOIN finding_rule ON measured.kind = finding_rule.finding
WHERE measured.value >= finding_rule.notable
WINDOW in_order AS (
    ORDER BY
        measured.kind <> 'broken ledger', measured.cost_ns IS NULL, measured.cost_ns DESC, measured.kind
)
ORDER BY rank_order
