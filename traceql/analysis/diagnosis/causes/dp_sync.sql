-- Data-parallel replicas wait for the one that has more tokens in a step, some without any of their own.
-- @title   replicas wait for each other
-- @group   scheduling
-- @query   dp.sync
-- @record  Record all ranks of all replicas.
-- @source  vLLM's data-parallel replicas of a model with experts make each step together, with a dummy batch where they have none
-- @needs   communicator, engine_setting, engine_step, layout, scheduler_load, step, time_scale, time_unit
-- @empty_unless time_unit
WITH replica AS (
    SELECT
        MAX(dp_size) AS replicas,
        COUNT(DISTINCT dp_rank) AS loaded
    FROM layout
),
-- Waiting between replicas for a step with more than a quarter more tokens.
wait AS (
    SELECT
        time_unit.*,
        COALESCE(own.tokens, 0) AS own_tokens, late.tokens AS late_tokens,
        late.tokens > 1.25 * COALESCE(own.tokens, 0)
        AND own.is_edge IS NOT TRUE AND late.is_edge IS NOT TRUE AS is_uneven
    FROM time_unit
    INNER JOIN communicator USING (communicator_id)
    LEFT JOIN engine_step AS own USING (step_id)
    LEFT JOIN engine_step AS late ON time_unit.root_step_id = late.step_id
    WHERE time_unit.part = 'lost' AND time_unit.is_waiting AND communicator.scope = 'data'
),
claimed AS (
    SELECT
        list({'unit': unit, 'ns': ns} ORDER BY unit) FILTER (is_uneven) AS claims,
        COALESCE(SUM(ns) FILTER (is_uneven), 0) AS ns,
        COALESCE(SUM(ns), 0) AS all_ns,
        COUNT(DISTINCT COALESCE(number, -1)) FILTER (is_uneven) AS steps,
        AVG(own_tokens) FILTER (is_uneven) AS own_tokens,
        AVG(late_tokens) FILTER (is_uneven) AS late_tokens,
        arg_max(rank, longest_ns) FILTER (is_uneven) AS rank,
        arg_max(longest_ts, longest_ns) FILTER (is_uneven) AS ts,
        MAX(longest_ns) FILTER (is_uneven) AS dur
    FROM wait
),
balance AS (
    SELECT
        arg_max(dp_rank, tokens) AS busiest, MAX(tokens) AS most,
        arg_min(dp_rank, tokens) AS idlest, MIN(tokens) AS fewest
    FROM (
        SELECT layout.dp_rank, SUM(engine_step.tokens) / COUNT(DISTINCT layout.rank) AS tokens
        FROM layout
        LEFT JOIN engine_step USING (rank)
        GROUP BY layout.dp_rank
    )
    WHERE dp_rank IS NOT NULL
),
dummy AS (
    SELECT COUNT(*) AS steps
    FROM (
        SELECT DISTINCT step.number, layout.dp_rank
        FROM step
        INNER JOIN layout USING (rank)
        WHERE step.phase = 'idle' AND step.gpu_dur > 0
    )
)
SELECT
    CASE
        WHEN load.is_program THEN FALSE
        WHEN COALESCE(replica.replicas, setting.dp, 1) = 1 THEN FALSE
        WHEN replica.loaded < 2 THEN NULL
        WHEN claimed.all_ns = 0 THEN FALSE
        WHEN time_scale.steps < 10 THEN NULL
        ELSE claimed.ns > 0.02 * time_scale.step_ns * time_scale.devices * time_scale.steps
    END AS is_confirmed,
    CASE
        WHEN load.is_program THEN 'these are steps of a program, not of an engine that schedules requests'
        WHEN COALESCE(replica.replicas, setting.dp, 1) = 1 THEN 'the run has one replica'
        WHEN replica.loaded < 2 THEN 'the ranks of only one replica were loaded'
        WHEN claimed.all_ns = 0 THEN 'no replica waits for another one'
        WHEN time_scale.steps < 10 THEN format('only {} steps were recorded; record more', time_scale.steps)
        ELSE format(
            'replicas wait {:.2f} ms a step for each other, {:.2f} ms of it for one with more tokens',
            claimed.all_ns / 1e6 / (time_scale.devices * time_scale.steps), claimed.ns / 1e6 / (time_scale.devices * time_scale.steps)
        )
    END AS reason,
    'Replicas wait {saving} a step for the one that has more tokens' AS headline,
    [
        format(
            'Those that wait have {:,.0f} tokens in the step, the one they wait for {:,.0f}.', claimed.own_tokens, claimed.late_tokens
        ),
        format('In all, replica {} processes {:,.0f} tokens, replica {} {:,.0f}.', balance.busiest, balance.most, balance.idlest, balance.fewest),
        CASE WHEN dummy.steps > 0 THEN format('{} steps of a replica have no tokens, only to take part.', dummy.steps) END
    ] AS evidence,
    CASE
        WHEN setting.config ->> '$.parallel_config.data_parallel_external_lb' = 'true' OR setting.config ->> '$.parallel_config.data_parallel_hybrid_lb' = 'true'
            THEN 'Balance requests over the replicas, or leave it to vLLM: no --data-parallel-external-lb, no --data-parallel-hybrid-lb'
        ELSE format(
            'Requests of like lengths to all replicas; else fewer replicas: --data-parallel-size {} --tensor-parallel-size {}',
            replica.replicas // 2, 2 * COALESCE(setting.tp, 1)
        )
    END AS remedy,
    'Whether requests reach the replicas unevenly, or are of different lengths.' AS unknowns,
    claimed.claims, claimed.steps AS samples, claimed.rank, claimed.ts, claimed.dur
FROM claimed
CROSS JOIN replica
CROSS JOIN balance
CROSS JOIN dummy
CROSS JOIN engine_setting AS setting
CROSS JOIN time_scale
CROSS JOIN scheduler_load AS load
