-- Graph replays compute many more rows than their steps have tokens.
--
-- Products read their weights however many rows they have, so padding mostly costs little.
-- @title   graph padding
-- @group   host
-- @most    notable
-- @unless  cuda_graphs_off
-- @query   graphs.replays
-- @record  Record launch shapes: the number of rows of a replay follows from the grids of its kernels.
-- @source  a run of 18 tokens in graphs of 128: 0.14 ms of 4.8 a step, most of it in all-reduces
-- @needs   engine_setting, engine_step, step_tokens, time_unit, wording
WITH replay AS (
    SELECT
        engine_step.step_id, engine_step.number, engine_step.phase, engine_step.tokens, engine_step.busy_ns,
        step_tokens.executed_tokens AS graph_rows
    FROM engine_step
    INNER JOIN step_tokens USING (step_id)
    WHERE
        engine_step.graph_mode <> 'none' AND engine_step.phase = 'decode' AND NOT engine_step.is_edge
        AND step_tokens.executed_tokens >= engine_step.tokens
),
-- Products compute tiles of at least this many rows, so fewer padded ones cost next to nothing.
padded AS (
    SELECT * FROM replay WHERE graph_rows - tokens >= 32 AND graph_rows >= 1.33 * tokens
),
counted AS (
    SELECT
        COUNT(DISTINCT number) AS steps,
        ROUND(AVG(tokens)) AS tokens, MAX(tokens) AS most, ROUND(AVG(graph_rows)) AS graph_rows,
        100 * (1 - SUM(tokens) / NULLIF(SUM(graph_rows), 0)) AS pct,
        AVG(busy_ns) AS busy_ns,
        MIN(graph_rows) AS fewest_rows,
        (SELECT COUNT(DISTINCT number) FROM replay) AS replays,
        (SELECT COUNT(DISTINCT number) FROM engine_step WHERE graph_mode <> 'none') AS graph_steps,
        (SELECT COUNT(*) FROM engine_step WHERE graph_mode IS NULL) AS unknown_steps,
        (SELECT COUNT(*) FROM engine_step) AS all_steps
    FROM padded
),
-- Steps of this run in graphs of a size that would have been enough.
like_step AS (
    SELECT AVG(replay.busy_ns) AS busy_ns, COUNT(DISTINCT replay.number) AS steps
    FROM replay
    CROSS JOIN counted
    WHERE replay.graph_rows >= counted.most AND replay.graph_rows < counted.fewest_rows
),
saved AS (
    SELECT GREATEST(0, 1 - like_step.busy_ns / NULLIF(counted.busy_ns, 0)) AS share
    FROM like_step
    CROSS JOIN counted
    WHERE like_step.steps >= 5
),
claimed AS (
    SELECT list({'unit': time_unit.unit, 'ns': CAST(time_unit.ns * saved.share AS BIGINT)} ORDER BY time_unit.unit) AS claims
    FROM time_unit
    CROSS JOIN saved
    WHERE time_unit.part <> 'lost' AND time_unit.step_id IN (SELECT step_id FROM padded)
),
-- vLLM rounds a batch up to the next captured size.
wanted AS (
    SELECT CAST(CASE WHEN most <= 4 THEN most ELSE ceil(most / 8.0) * 8 END AS BIGINT) AS size FROM counted
)
SELECT
    CASE
        WHEN counted.all_steps = 0 THEN NULL
        WHEN counted.graph_steps = 0 AND counted.unknown_steps > 0 THEN NULL
        WHEN counted.graph_steps = 0 THEN FALSE
        WHEN counted.replays = 0 THEN NULL
        ELSE counted.steps > 0
    END AS is_confirmed,
    CASE
        WHEN counted.all_steps = 0 THEN 'no step was recorded'
        WHEN counted.graph_steps = 0 AND counted.unknown_steps > 0 THEN 'which steps replay graphs was not recorded'
        WHEN counted.graph_steps = 0 THEN 'no step replays a graph'
        WHEN counted.replays = 0 THEN 'of no decode step both tokens and rows of its graph are known'
        WHEN counted.steps = 0 THEN 'no graph replay has 32 rows, and a third of its tokens, more than it needs'
    END AS reason,
    format(
        'Graphs of {} decode steps compute {:.0f} rows for {:.0f} tokens: {:.0f}% padding',
        counted.steps, counted.graph_rows, counted.tokens, counted.pct
    ) AS headline,
    [
        CASE
            WHEN setting.capture_sizes IS NOT NULL
                THEN format('Of the captured sizes, the next one is {:.0f}.', counted.graph_rows)
        END,
        CASE
            WHEN claimed.claims IS NOT NULL THEN format(
                'Steps in graphs of fewer rows, which hold {} tokens too, take {:.2f} ms of the {} instead of {:.2f}.',
                counted.most, like_step.busy_ns / 1e6, wording.device, counted.busy_ns / 1e6
            )
            ELSE 'Products read their weights for any number of rows, so this costs little: 0.14 ms of 2.9 a step, where 18 tokens took 128 rows.'
        END
    ] AS evidence,
    CASE
        WHEN setting.capture_sizes IS NOT NULL
            THEN format('--cudagraph-capture-sizes {}', array_to_string(list_sort(list_distinct(setting.capture_sizes || [wanted.size])), ' '))
        ELSE format('Add {} to --cudagraph-capture-sizes', wanted.size)
    END AS remedy,
    CASE WHEN claimed.claims IS NULL THEN format(
        'What it saves: no step ran in a smaller graph. Record a run in which {} is captured.', wanted.size
    ) END AS unknowns,
    claimed.claims, counted.steps AS samples, 'decode' AS phase, claimed.claims IS NULL AS is_remark
FROM counted
CROSS JOIN like_step
CROSS JOIN claimed
CROSS JOIN wanted
CROSS JOIN engine_setting AS setting
CROSS JOIN wording
