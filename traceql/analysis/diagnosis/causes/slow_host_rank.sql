-- One rank's host is slower than the others: its GPU is idle, and the other ranks wait for it.
--
-- The engine begins a step when all ranks have ended the one before. So a slow rank also delays what the
-- others launch. With equal hosts a step would lose what the next host needs beyond the work of the GPU.
-- @title   one slow host
-- @group   host
-- @unless  inconsistent_times
-- @query   time.lost
-- @record  Record all ranks, with CPU activities.
-- @source  recordings with a worker on a busy core: equal hosts would save 49% of the loss; equal hosts without a cause differ by 1 to 17%
-- @needs   engine_step, host_bound_step, host_stall, layout, time_scale, time_unit, trace
-- @empty_unless time_unit
-- A host matters only in steps that wait for one.
WITH host AS (
    SELECT engine_step.rank, layout.pp_rank, trace.dp_rank, AVG(engine_step.host_ns) AS ns, COUNT(*) AS steps
    FROM engine_step
    INNER JOIN host_bound_step USING (step_id)
    INNER JOIN trace ON engine_step.rank = trace.rank
    LEFT JOIN layout ON engine_step.rank = layout.rank
    WHERE NOT engine_step.is_edge AND engine_step.host_ns IS NOT NULL AND host_bound_step.is_bound
    GROUP BY ALL
),
-- Stages and replicas do different work: hosts are compared within them.
alike AS (
    SELECT
        arg_max(rank, ns) AS slow_rank,
        MAX(ns) AS slow_ns,
        list_sort(list(ns))[-2] AS next_ns,
        MIN(ns) AS fast_ns,
        MIN(steps) AS steps,
        COUNT(*) AS ranks
    FROM host
    GROUP BY pp_rank, dp_rank
),
compared AS (
    SELECT
        arg_max(slow_rank, slow_ns - next_ns) AS slow_rank,
        arg_max(slow_ns, slow_ns - next_ns) AS slow_ns,
        arg_max(next_ns, slow_ns - next_ns) AS next_ns,
        arg_max(fast_ns, slow_ns - next_ns) AS fast_ns,
        arg_max(steps, slow_ns - next_ns) AS steps,
        COALESCE(MAX(ranks), 0) AS ranks,
        COUNT(*) AS groups
    FROM alike
),
bound AS (
    SELECT
        COUNT(DISTINCT number) FILTER (is_bound) AS steps,
        COUNT(DISTINCT number) AS all_steps,
        AVG(busy_ns) FILTER (is_bound) AS busy_ns,
        -- Each rank has the loss of its step number.
        AVG(lost_ns) FILTER (is_bound) * COUNT(DISTINCT number) FILTER (is_bound) AS lost_ns
    FROM host_bound_step
),
excess AS (
    SELECT
        compared.slow_rank, compared.slow_ns, compared.next_ns, compared.fast_ns, compared.ranks, compared.groups,
        compared.steps AS host_steps,
        slow_ns - next_ns AS ns,
        -- A host that runs ahead costs nothing, however long it takes.
        LEAST((slow_ns - next_ns) * bound.steps, bound.lost_ns) / NULLIF(time_scale.lost_ns * time_scale.steps, 0) AS share,
        time_scale.lost_ns, bound.busy_ns, time_scale.steps, time_scale.devices, bound.all_steps,
        bound.steps * time_scale.devices AS device_steps
    FROM compared
    CROSS JOIN time_scale
    CROSS JOIN bound
),
own AS (
    SELECT
        COALESCE(SUM(time_unit.ns) FILTER (is_waiting), 0) AS waiting_ns,
        arg_max(time_unit.rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts,
        MAX(longest_ns) AS dur
    FROM time_unit
    INNER JOIN excess ON time_unit.root_rank = excess.slow_rank
    WHERE part = 'lost' AND cause IN ('host', 'sync')
),
host_lost AS (
    SELECT time_unit.unit, time_unit.ns AS lost_ns, SUM(time_unit.ns) OVER () AS all_ns
    FROM time_unit
    INNER JOIN host_bound_step ON time_unit.root_step_id = host_bound_step.step_id
    WHERE host_bound_step.is_bound AND time_unit.part = 'lost' AND time_unit.cause IN ('host', 'sync')
),
claimed AS (
    SELECT list({
        'unit': unit,
        'ns': CAST(host_lost.lost_ns * GREATEST(0, 1 - GREATEST(0, excess.next_ns - excess.busy_ns) * excess.device_steps / all_ns) AS BIGINT)
    } ORDER BY unit) AS claims
    FROM host_lost
    CROSS JOIN excess
),
stop AS (
    SELECT COUNT(*) AS calls, SUM(host_stall.dur) AS ns
    FROM host_stall
    INNER JOIN excess ON host_stall.rank = excess.slow_rank
    WHERE host_stall.kind = 'stopped' AND NOT host_stall.is_edge AND host_stall.idle_ns > 0.5 * host_stall.dur
),
loaded AS (
    SELECT COUNT(rank) AS ranks, MAX(world_size) AS world_size FROM trace
)
SELECT
    CASE
        WHEN excess.ranks < 2 AND (loaded.world_size = 1 OR excess.groups > 1) THEN FALSE
        WHEN loaded.ranks > 1 AND excess.all_steps > 0 AND excess.device_steps = 0 THEN FALSE
        WHEN excess.ranks < 2 THEN NULL
        ELSE excess.share > 0.25
    END AS is_confirmed,
    CASE
        WHEN excess.ranks < 2 AND loaded.world_size = 1 THEN 'the run has one rank'
        WHEN excess.ranks < 2 AND loaded.ranks < 2 THEN 'only one rank was loaded'
        WHEN loaded.ranks > 1 AND excess.all_steps > 0 AND excess.device_steps = 0 THEN 'no step loses more than a tenth of its work to the host'
        WHEN excess.ranks = 0 THEN 'no host was recorded in a step between the first and the last one'
        WHEN excess.groups > 1 AND excess.ranks < 2 THEN 'no two hosts do the same work: each rank is a stage or a replica'
        WHEN excess.ranks < 2 THEN 'only one rank was loaded'
        WHEN excess.share <= 0.25
            THEN format(
                'the hosts take {:.2f} to {:.2f} ms a step; equal ones would save {:.0f}% of the loss',
                excess.fast_ns / 1e6, excess.slow_ns / 1e6, GREATEST(0, 100 * excess.share)
            )
    END AS reason,
    format(
        'The host of rank {} takes {:.1f} ms a step, the next one {:.1f}', excess.slow_rank, excess.slow_ns / 1e6, excess.next_ns / 1e6
    ) AS headline,
    [
        format(
            'Rank {} spends {:.1f} ms on the host in each of {} steps; {}.',
            excess.slow_rank, excess.slow_ns / 1e6, excess.host_steps,
            CASE
                WHEN excess.ranks = 2 THEN format('the other {:.1f} ms', excess.next_ns / 1e6)
                ELSE format('the others {:.1f} to {:.1f} ms', excess.fast_ns / 1e6, excess.next_ns / 1e6)
            END
        ),
        format(
            'Each of the other ranks waits {:.1f} ms a step for it, as recorded.',
            own.waiting_ns / 1e6 / (GREATEST(1, excess.devices - 1) * excess.steps)
        ),
        CASE WHEN stop.calls >= 10 THEN format(
            'Its launching thread stops {} times inside calls that do not block, for {:.1f} ms in the mean, as if another process had its core.',
            stop.calls, stop.ns / 1e6 / stop.calls
        ) END,
        format(
            'Hosts that differ less would save {:.0f}% of the lost time directly, and more because each step begins when the slowest has ended.',
            100 * excess.share
        )
    ] AS evidence,
    format(
        'taskset -acp CORES PID for the worker of rank {}, or --numa-bind (ps -eLo pid,tid,psr,pcpu,args shows what shares its cores)',
        excess.slow_rank
    ) AS remedy,
    'What else runs on the cores of this worker: the trace has only its own threads.' AS unknowns,
    claimed.claims, excess.host_steps AS samples,
    own.rank, own.ts, own.dur,
    CASE WHEN excess.share <= 0.1 AND excess.slow_ns < 1.2 * excess.next_ns THEN 'equal hosts' END AS fine
FROM excess
CROSS JOIN own
CROSS JOIN claimed
CROSS JOIN stop
CROSS JOIN loaded
