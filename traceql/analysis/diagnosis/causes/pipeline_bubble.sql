-- Pipeline stages wait for each other: fewer batches are in flight than stages, or a stage takes longer than the others.
-- @title   pipeline bubble
-- @group   communication
-- @query   pp.bubble
-- @record  Record all ranks of a replica at the same time.
-- @source  vLLM's pipeline parallelism: each stage works on another batch, so that it takes as many as stages; VLLM_PP_LAYER_PARTITION
-- @needs   engine_setting, kernel, layout, rank_model, scheduler_step, step, time_scale, time_unit, trace
WITH parallel AS (
    SELECT
        COALESCE(MAX(layout.pp_size), ANY_VALUE(setting.pp)) AS stages,
        COUNT(DISTINCT layout.pp_rank) AS loaded,
        (SELECT MAX(world_size) FROM trace) AS world_size
    FROM engine_setting AS setting
    LEFT JOIN layout ON TRUE
),
-- What waits before the first step ends and after the last one begins is the edge of the recording.
waited AS (
    SELECT *
    FROM (
        SELECT *, number > MIN(number) OVER of_rank AND number < MAX(number) OVER of_rank AS is_inside
        FROM time_unit
        WINDOW of_rank AS (PARTITION BY rank)
    )
    WHERE part = 'lost' AND cause = 'pipeline' AND is_inside
),
iteration AS (
    SELECT
        COUNT(*) FILTER (phase = 'idle') AS idle,
        COUNT(*) AS iterations,
        COUNT(*) FILTER (phase IS DISTINCT FROM 'idle') AS working,
        BOOL_AND(source = 'execute_context') AS is_vllm
    FROM step
    WHERE rank = (SELECT MIN(rank) FROM step)
),
flight AS (
    SELECT MEDIAN(COALESCE(in_flight, running)) AS requests FROM scheduler_step
),
busy AS (
    SELECT layout.pp_rank, SUM(time_unit.ns) / COUNT(DISTINCT time_unit.rank) AS ns
    FROM time_unit
    INNER JOIN layout USING (rank)
    WHERE time_unit.part = 'computing'
    GROUP BY layout.pp_rank
),
in_layers AS (
    SELECT layout.pp_rank, MAX(rank_model.layers) AS layers, SUM(kernel.dur) / COUNT(DISTINCT kernel.rank) AS ns
    FROM kernel
    INNER JOIN layout USING (rank)
    INNER JOIN rank_model USING (rank)
    WHERE kernel.layer IS NOT NULL AND kernel.category <> 'collective'
    GROUP BY layout.pp_rank
),
stage AS (
    SELECT
        busy.pp_rank, busy.ns, in_layers.layers,
        AVG(busy.ns) OVER () AS mean_ns,
        SUM(in_layers.ns) OVER () / SUM(in_layers.layers) OVER () AS layer_ns,
        SUM(in_layers.layers) OVER () AS all_layers
    FROM busy
    LEFT JOIN in_layers USING (pp_rank)
),
divided AS (
    SELECT pp_rank, ns, layers, all_layers, CAST(round(layers + (mean_ns - ns) / layer_ns) AS BIGINT) AS wanted
    FROM stage
),
balance AS (
    SELECT
        MAX(ns) / NULLIF(AVG(ns), 0) - 1 AS excess,
        MIN(ns) AS fast_ns, MAX(ns) AS slow_ns,
        arg_max(pp_rank, ns) AS slow_stage,
        CASE
            WHEN COUNT(wanted) = COUNT(*) THEN list(wanted ORDER BY pp_rank)[:-2]
                || [ANY_VALUE(all_layers) - COALESCE(list_sum(list(wanted ORDER BY pp_rank)[:-2]), 0)]
        END AS wanted,
        list(layers ORDER BY pp_rank) AS layers
    FROM divided
),
claimed AS (
    SELECT
        list({'unit': unit, 'ns': ns} ORDER BY unit) AS claims,
        COALESCE(SUM(ns), 0) AS ns,
        arg_max(rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts,
        MAX(longest_ns) AS dur
    FROM waited
),
judged AS (
    SELECT
        parallel.*, iteration.*, flight.requests, balance.*, claimed.* EXCLUDE (ns),
        claimed.ns / (scale.devices * scale.steps) AS wait_ns,
        claimed.ns * COALESCE(scale.scale, 1) / (scale.devices * scale.steps * scale.step_ns) AS share,
        balance.excess > 0.1 AS is_unequal,
        COALESCE(flight.requests < parallel.stages, FALSE) OR iteration.idle > 0.1 * iteration.iterations AS is_underfilled
    FROM parallel
    CROSS JOIN iteration
    CROSS JOIN flight
    CROSS JOIN balance
    CROSS JOIN claimed
    LEFT JOIN time_scale AS scale ON TRUE
)
SELECT
    CASE
        WHEN world_size = 1 OR stages = 1 THEN FALSE
        WHEN stages IS NULL OR loaded < stages OR share IS NULL THEN NULL
        WHEN share < 0.02 THEN FALSE
        WHEN is_unequal OR is_underfilled THEN TRUE
    END AS is_confirmed,
    CASE
        WHEN world_size = 1 THEN 'the run has one rank'
        WHEN stages = 1 THEN 'the model runs in one stage'
        WHEN stages IS NULL THEN 'whether ranks are stages of a pipeline is unknown'
        WHEN loaded < stages THEN format('{} of {} stages were loaded', loaded, stages)
        WHEN share IS NULL THEN 'no kernel was recorded'
        WHEN share < 0.02 THEN format('stages wait for each other for {:.1f}% of a step', 100 * share)
        WHEN NOT is_unequal AND NOT is_underfilled
            THEN format('stages wait {:.1f} ms a step for each other, although they are equal and no iteration is empty', wait_ns / 1e6)
    END AS reason,
    CASE
        WHEN is_underfilled AND idle > 0.1 * iterations
            THEN format('Each of {} stages waits {{saving}} a step; {} of {} iterations are empty', stages, idle, iterations)
        WHEN is_underfilled THEN format('Each of {} stages waits {{saving}} a step; {:.0f} requests are in flight', stages, requests)
        ELSE format('Pipeline stages wait {{saving}} a step: stage {} takes {:.0f}% longer than the mean', slow_stage, 100 * excess)
    END AS headline,
    [
        format('Stages wait {:.2f} ms a step for data of another stage, as recorded.', wait_ns / 1e6),
        CASE
            WHEN idle > 0 THEN format('Of {} iterations of the engine, {} have no tokens.', iterations, idle)
        END,
        CASE WHEN requests IS NOT NULL THEN format('In the median step, {:.0f} requests are in flight for {} stages.', requests, stages) END,
        CASE
            WHEN working > 0 THEN format('A stage computes {:.2f} to {:.2f} ms a step.', fast_ns / 1e6 / working, slow_ns / 1e6 / working)
        END
    ] AS evidence,
    concat_ws(
        '; ',
        CASE
            WHEN is_underfilled THEN format(
                'more requests at a time{}, so that {} batches are in flight', COALESCE(format(' than {:.0f}', requests), ''), stages
            )
        END,
        CASE
            WHEN is_unequal AND is_vllm AND list_min(wanted) > 0 AND wanted <> layers
                THEN 'VLLM_PP_LAYER_PARTITION=' || array_to_string(wanted, ',')
            WHEN is_unequal THEN format('move layers away from stage {}', slow_stage)
        END
    ) AS remedy,
    CASE WHEN is_underfilled THEN 'What the same requests in smaller batches would gain: it takes more requests to gain throughput.' END AS unknowns,
    claims, working AS samples, rank, ts, dur
FROM judged
