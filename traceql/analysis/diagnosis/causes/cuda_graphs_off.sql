-- The engine runs without CUDA graphs, so the host launches each kernel of each step.
-- @title   CUDA graphs off
-- @group   host
-- @after   slow_host_rank
-- @query   idle.host phase=phase
-- @record  Record with traceql capture run, which notes the engine configuration.
-- @source  vLLM's documentation of CUDA graphs; a run with enforce_eager took 10.7 ms a step, without it 3.7
-- @needs   engine_setting, engine_step, lost_pct, step_count, time_scale, time_unit, wording
-- Without launch calls, the configuration alone shows that no graph is replayed.
WITH launched AS (
    SELECT engine_step.*
    FROM engine_step
    CROSS JOIN step_count
    WHERE
        (engine_step.graph_mode = 'none' OR (engine_step.graph_mode IS NULL AND NOT step_count.has_launches))
        AND engine_step.phase IN ('decode', 'mixed') AND NOT engine_step.is_edge
),
counted AS (
    SELECT
        COUNT(DISTINCT number) AS steps,
        MODE(phase) AS phase,
        (SELECT COUNT(DISTINCT number) FROM engine_step WHERE graph_mode <> 'none' AND phase IN ('decode', 'mixed')) AS replayed
    FROM launched
),
claimed AS (
    SELECT
        list({'unit': unit, 'ns': ns} ORDER BY unit) AS claims,
        arg_max(time_unit.rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts,
        MAX(longest_ns) AS dur,
        SUM(ns) AS ns
    FROM time_unit
    INNER JOIN launched ON time_unit.root_step_id = launched.step_id
    CROSS JOIN step_count
    WHERE
        time_unit.part = 'lost' AND time_unit.is_between IS NOT TRUE
        AND (time_unit.cause = 'host' OR (time_unit.cause = 'unknown' AND NOT step_count.has_launches))
),
measured AS (
    SELECT
        COALESCE(lost_pct(claimed.ns, time_scale), 0) AS pct
    FROM time_scale
    CROSS JOIN claimed
),
setting AS (
    SELECT
        *,
        enforce_eager OR cudagraph_mode = 'NONE' AS is_off,
        CASE WHEN enforce_eager THEN 'enforce_eager is true' ELSE 'cudagraph_mode is NONE' END AS why
    FROM engine_setting
)
SELECT
    CASE
        WHEN step_count.is_other THEN FALSE
        WHEN counted.replayed > 0 THEN FALSE
        WHEN setting.is_off IS FALSE THEN FALSE
        WHEN counted.steps = 0 OR setting.is_off IS NULL THEN NULL
        ELSE measured.pct >= 1
    END AS is_confirmed,
    CASE
        WHEN step_count.is_other THEN 'no step is one of an inference engine'
        WHEN counted.replayed > 0 THEN format('{} decode or mixed steps replay graphs', counted.replayed)
        WHEN setting.is_off IS FALSE THEN format('run.json has enforce_eager false, cudagraph_mode {}', setting.cudagraph_mode)
        WHEN counted.steps = 0 THEN 'no decode step between the first and the last one was recorded'
        WHEN setting.is_off IS NULL THEN 'no decode step replays a graph, and no run.json says whether graphs are off'
        WHEN measured.pct < 1 THEN format('graphs are off, but launches cost {:.1f}% of a step', measured.pct)
    END AS reason,
    CASE
        WHEN step_count.has_launches THEN format('{} are off: the host launches each kernel of {} steps', wording.graphs, counted.steps)
        ELSE format('{} are off: a {} is idle for {{saving}} within a step', wording.graphs, wording.device)
    END AS headline,
    [
        format('In run.json, {}; no step replays a graph.', setting.why),
        format(
            '{} a {} loses {:.1f} ms a step within the forward pass, as recorded.',
            CASE WHEN step_count.has_launches THEN 'While the host launches,' ELSE 'Between its kernels,' END,
            wording.device, claimed.ns / 1e6 / (time_scale.devices * counted.steps)
        ),
        format('A step needs {:.1f} ms of work on the {}.', time_scale.busy_ns / 1e6, wording.device)
    ] AS evidence,
    CASE
        WHEN setting.enforce_eager THEN 'vllm serve ... without --enforce-eager (LLM(enforce_eager=False))'
        ELSE 'vllm serve ... without -cc.cudagraph_mode=NONE (the default is FULL_AND_PIECEWISE)'
    END AS remedy,
    'What the host still needs for a step with graphs: the saving leaves the time between steps as it is.' AS unknowns,
    claimed.claims, counted.steps AS samples, counted.phase, claimed.rank, claimed.ts, claimed.dur
FROM counted
CROSS JOIN step_count
CROSS JOIN claimed
CROSS JOIN setting
CROSS JOIN measured
CROSS JOIN time_scale
CROSS JOIN wording
