-- Decode steps replay graphs piece by piece, though one graph of the whole step would do.
--
-- vLLM captures full graphs for the captured sizes up to max_num_seqs x (1 + drafted tokens) alone: with 6
-- requests at most, 5 and 6 are padded to 8, which is beyond. And a full graph needs the same number of tokens
-- from each request, which speculation does not always draft.
-- @title   piecewise graphs in decode
-- @group   host
-- @after   slow_host_rank
-- @unless  cuda_graphs_off, speculation_no_async
-- @query   graphs.replays
-- @record  Record with traceql capture run, which notes the captured sizes and the most requests.
-- @source  vLLM 0.25, v1/cudagraph_dispatcher.py; a run with full graphs of 1, 2 and 4 requests ran 5 and 6 piecewise
-- @needs   engine_setting, engine_step, step_count, time_scale, time_unit, wording
WITH decode AS (
    SELECT
        engine_step.*,
        (engine_step.host_lost_ns - engine_step.between_ns) / time_scale.devices * COALESCE(time_scale.scale, 1) > 0.1 * engine_step.busy_ns
            AS is_bound
    FROM engine_step
    CROSS JOIN time_scale
    WHERE engine_step.phase = 'decode' AND NOT engine_step.is_edge
),
setting AS (
    SELECT
        *,
        1 + COALESCE(drafted_tokens, 0) AS query_tokens,
        max_num_seqs * (1 + COALESCE(drafted_tokens, 0)) AS most_full_tokens,
        NOT contains(cudagraph_mode, 'FULL') AS is_piecewise
    FROM engine_setting
),
counted AS (
    SELECT
        COUNT(DISTINCT number) FILTER (graph_mode = 'piecewise') AS steps,
        COUNT(DISTINCT number) FILTER (graph_mode = 'piecewise' AND is_bound) AS bound_steps,
        COUNT(DISTINCT number) FILTER (graph_mode = 'full') AS full_steps,
        MIN(requests) FILTER (graph_mode = 'piecewise') AS fewest,
        MAX(requests) FILTER (graph_mode = 'piecewise') AS most,
        MAX(tokens) FILTER (graph_mode = 'piecewise') AS most_tokens,
        MAX(requests) FILTER (graph_mode = 'full') AS most_full,
        AVG(busy_ns) FILTER (graph_mode = 'piecewise' AND is_bound) AS busy_ns,
        AVG(host_lost_ns) FILTER (graph_mode = 'piecewise' AND is_bound) AS lost_ns,
        AVG(host_lost_ns) FILTER (graph_mode = 'full') AS full_lost_ns,
        BOOL_OR(tokens <> requests * setting.query_tokens) FILTER (graph_mode = 'piecewise') AS is_ragged
    FROM decode
    CROSS JOIN setting
),
-- The captured size that such a batch is padded to, and whether a full graph of it exists.
fitted AS (
    SELECT
        list_min(list_filter(setting.capture_sizes, lambda size: size >= counted.most_tokens)) AS size,
        size > setting.most_full_tokens AS is_beyond
    FROM setting
    CROSS JOIN counted
),
-- Against like steps in full graphs, or else within the forward pass.
claimed AS (
    SELECT
        CASE
            WHEN counted.full_steps >= 5 THEN GREATEST(0, 1 - counted.full_lost_ns / NULLIF(counted.lost_ns, 0))
        END AS share,
        list({'unit': time_unit.unit, 'ns': CAST(time_unit.ns * COALESCE(share, 1) AS BIGINT)} ORDER BY time_unit.unit) AS claims,
        SUM(time_unit.ns) AS ns,
        arg_max(time_unit.rank, time_unit.longest_ns) AS rank,
        arg_max(time_unit.longest_ts, time_unit.longest_ns) AS ts,
        MAX(time_unit.longest_ns) AS dur
    FROM time_unit
    INNER JOIN decode ON time_unit.root_step_id = decode.step_id
    CROSS JOIN counted
    WHERE
        decode.graph_mode = 'piecewise' AND decode.is_bound
        AND time_unit.part = 'lost' AND time_unit.cause IN ('host', 'sync')
        AND (counted.full_steps >= 5 OR time_unit.is_between IS NOT TRUE)
    GROUP BY counted.full_steps, counted.full_lost_ns, counted.lost_ns
)
SELECT
    CASE
        WHEN step_count.is_other OR counted.steps = 0 THEN FALSE
        WHEN counted.bound_steps < 3 THEN FALSE
        WHEN NOT setting.has_config THEN NULL
        WHEN setting.is_piecewise OR fitted.is_beyond OR counted.is_ragged THEN TRUE
    END AS is_confirmed,
    CASE
        WHEN step_count.is_other THEN 'no step is one of an inference engine'
        WHEN counted.steps = 0 THEN 'no decode step replays graphs piecewise'
        WHEN counted.bound_steps < 3 THEN 'hardly any step in piecewise graphs loses more than a tenth to its launches'
        WHEN NOT setting.has_config
            THEN format('{} decode steps replay graphs piecewise, and no run.json says which sizes have full ones', counted.steps)
        ELSE format('{} decode steps replay graphs piecewise; the log of the start may say why (grep -i cudagraph)', counted.steps)
    END AS reason,
    CASE
        WHEN setting.is_piecewise THEN format('All graphs are piecewise: {} decode steps launch attention alone', counted.steps)
        WHEN fitted.is_beyond
            THEN format('Full graphs stop at {} requests: {} decode steps of up to {} run piecewise', counted.most_full, counted.steps, counted.most)
        ELSE format('{} decode steps run piecewise: requests have unequal numbers of drafted tokens', counted.steps)
    END AS headline,
    [
        CASE
            WHEN setting.is_piecewise THEN format('In run.json, cudagraph_mode is {}.', setting.cudagraph_mode)
            WHEN fitted.is_beyond THEN format(
                'A batch of {} tokens is padded to {}, and full graphs are captured up to max_num_seqs {} x {} alone.',
                counted.most_tokens, fitted.size, setting.max_num_seqs, setting.query_tokens
            )
            ELSE format('A full graph needs {} tokens from each request.', setting.query_tokens)
        END,
        format(
            'Such a step loses {:.1f} ms to its host, as recorded{}; it needs {:.1f} ms of work on the {}.',
            counted.lost_ns / 1e6 / time_scale.devices,
            COALESCE(CASE WHEN counted.full_steps >= 5 THEN format(', in full graphs {:.1f}', counted.full_lost_ns / 1e6 / time_scale.devices) END, ''),
            counted.busy_ns / 1e6, wording.device
        )
    ] AS evidence,
    CASE
        WHEN setting.is_piecewise THEN '-cc.cudagraph_mode=FULL_AND_PIECEWISE (the default; an attention backend may refuse it, which the log says at the start)'
        WHEN fitted.is_beyond
            THEN format('--max-num-seqs {}, so that the captured size {} gets a full graph', CAST(ceil(fitted.size / setting.query_tokens) AS BIGINT), fitted.size)
        ELSE 'A method that drafts the same number for each request: eagle3, mtp or a draft model (measure the acceptance)'
    END AS remedy,
    CASE WHEN counted.full_steps < 5 THEN 'What like steps lose in full graphs: fewer than 5 were recorded.' END AS unknowns,
    claimed.claims, counted.bound_steps AS samples, 'decode' AS phase, claimed.rank, claimed.ts, claimed.dur
FROM counted
CROSS JOIN fitted
CROSS JOIN setting
CROSS JOIN step_count
CROSS JOIN time_scale
CROSS JOIN wording
LEFT JOIN claimed ON TRUE
