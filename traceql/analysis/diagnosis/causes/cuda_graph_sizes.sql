-- Steps have more tokens than the largest captured CUDA graph, so the host launches each of their kernels.
-- @title   steps larger than the captured CUDA graphs
-- @group   host
-- @after   slow_host_rank, small_prefill_chunks
-- @unless  cuda_graphs_off
-- @query   graphs.replays
-- @record  Record with traceql capture run, which notes the captured sizes.
-- @source  vLLM's cudagraph_capture_sizes; a run of 16 requests with graphs up to 4 tokens took 9.9 ms a step, with 16 captured 2.4
-- @needs   engine_setting, engine_step, step_count, time_scale, time_unit, wording
WITH setting AS (
    SELECT
        *,
        enforce_eager OR cudagraph_mode = 'NONE' AS is_off,
        COALESCE(max_capture_size, 0) AS largest
    FROM engine_setting
),
-- Steps that are too large, and whose launches lose more than a tenth of their work.
large AS (
    SELECT engine_step.*
    FROM engine_step
    CROSS JOIN setting
    CROSS JOIN time_scale
    WHERE
        engine_step.graph_mode = 'none'
        AND engine_step.phase IN ('decode', 'mixed', 'prefill')
        AND engine_step.tokens > setting.largest
        AND (engine_step.host_lost_ns - engine_step.between_ns) / time_scale.devices * COALESCE(time_scale.scale, 1) > 0.1 * engine_step.busy_ns
        AND NOT engine_step.is_edge
),
counted AS (
    SELECT
        COUNT(DISTINCT number) AS steps,
        MIN(tokens) AS fewest, MAX(tokens) AS most,
        COUNT(DISTINCT number) FILTER (phase = 'decode') AS decode_steps,
        COUNT(DISTINCT number) FILTER (tokens <= 1024) AS small_steps,
        AVG(busy_ns) AS busy_ns,
        MODE(phase) AS phase,
        (SELECT COUNT(DISTINCT number) FROM engine_step WHERE graph_mode = 'none' AND phase <> 'idle') AS launched,
        (SELECT COUNT(DISTINCT number) FROM engine_step WHERE graph_mode IS NULL AND phase <> 'idle') AS unknown_steps,
        (SELECT COUNT(DISTINCT number) FROM engine_step) AS all_steps
    FROM large
),
-- What like steps in graphs lose.
like_step AS (
    SELECT AVG(host_lost_ns) AS lost_ns, COUNT(DISTINCT number) AS steps
    FROM engine_step
    WHERE graph_mode <> 'none' AND phase IN ('decode', 'mixed') AND NOT is_edge
),
loss AS (
    SELECT
        large.step_id,
        CASE
            WHEN like_step.steps >= 5 THEN GREATEST(0, 1 - like_step.lost_ns / NULLIF(large.host_lost_ns, 0))
        END AS share
    FROM large
    CROSS JOIN like_step
),
claimed AS (
    SELECT
        list({'unit': unit, 'ns': CAST(ns * COALESCE(loss.share, 1) AS BIGINT)} ORDER BY unit) AS claims,
        SUM(ns * COALESCE(loss.share, 1)) AS ns,
        arg_max(time_unit.rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts,
        MAX(longest_ns) AS dur
    FROM time_unit
    INNER JOIN loss ON time_unit.root_step_id = loss.step_id
    WHERE
        time_unit.part = 'lost' AND time_unit.cause IN ('host', 'sync')
        AND (loss.share IS NOT NULL OR time_unit.is_between IS NOT TRUE)
),
-- Sizes to capture: vLLM rounds a batch up to the next one.
wanted AS (
    SELECT
        CAST(CASE
            WHEN most <= 16 THEN most
            WHEN most <= 256 THEN ceil(most / 8.0) * 8
            WHEN most <= 512 THEN ceil(most / 16.0) * 16
            -- This recording need not have the largest step.
            ELSE GREATEST(most, LEAST(2 ** ceil(log2(most)), COALESCE(setting.max_num_batched_tokens, 2 ** 20)))
        END AS BIGINT) AS size
    FROM counted
    CROSS JOIN setting
)
SELECT
    CASE
        WHEN step_count.is_other THEN FALSE
        WHEN setting.is_off THEN FALSE
        WHEN setting.capture_sizes IS NULL AND counted.launched > 0 THEN NULL
        WHEN counted.unknown_steps > 0 AND counted.steps = 0 THEN NULL
        WHEN setting.capture_sizes IS NULL AND counted.all_steps = 0 THEN NULL
        ELSE counted.steps >= 3
    END AS is_confirmed,
    CASE
        WHEN step_count.is_other THEN 'no step is one of an inference engine'
        WHEN setting.is_off THEN 'no size was captured, because graphs are off'
        WHEN counted.all_steps = 0 THEN 'no step was recorded'
        WHEN counted.unknown_steps > 0 AND counted.steps = 0 THEN 'which steps replay graphs was not recorded'
        WHEN counted.launched = 0 THEN 'all steps replay graphs'
        WHEN setting.capture_sizes IS NULL
            THEN format('{} steps replay no graph, and no run.json names the captured sizes', counted.launched)
        WHEN counted.steps = 0 THEN 'no step that is larger than the captured sizes loses more than a tenth to its launches'
        WHEN counted.steps < 3 THEN format('fewer than 3 steps that are larger than the captured sizes prove nothing: {}', counted.steps)
    END AS reason,
    format(
        'The host launches each kernel of {} of {} steps, which exceed {} tokens', counted.steps, counted.all_steps, setting.largest
    ) AS headline,
    [
        format(
            'Graphs are captured up to {:,} tokens; these steps have {}.', setting.largest,
            CASE WHEN counted.fewest = counted.most THEN format('{:,}', counted.most) ELSE format('{:,} to {:,}', counted.fewest, counted.most) END
        ),
        format(
            'In each such step, a {} has nothing to do for {:.1f} ms until its kernels are launched, as recorded; they take {:.1f} ms.',
            wording.device, claimed.ns / 1e6 / (time_scale.devices * counted.steps), counted.busy_ns / 1e6
        ),
        format(
            'Graphs up to {:,} tokens cover all of them{}.', wanted.size,
            CASE WHEN wanted.size > 1024 AND counted.small_steps > 0 THEN format('; up to 1,024, {} of them', counted.small_steps) ELSE '' END
        )
    ] AS evidence,
    CASE
        WHEN setting.sets_capture_sizes THEN format(
            '--cudagraph-capture-sizes {} (or leave the list out)',
            array_to_string(list_sort(list_distinct(
                [CAST(2 ** n AS BIGINT) FOR n IN range(0, 14) IF 2 ** n < wanted.size] || [wanted.size]
            )), ' ')
        )
        ELSE format('--max-cudagraph-capture-size {}', wanted.size)
    END AS remedy,
    concat_ws(
        ' ',
        CASE WHEN counted.decode_steps < counted.steps THEN 'Whether graphs of that size help steps with prompts: measure it.' END,
        'What more graphs take of the memory for the KV cache.'
    ) AS unknowns,
    claimed.claims, counted.steps AS samples, counted.phase, claimed.rank, claimed.ts, claimed.dur
FROM counted
CROSS JOIN step_count
CROSS JOIN claimed
CROSS JOIN wanted
CROSS JOIN setting
CROSS JOIN time_scale
CROSS JOIN wording
