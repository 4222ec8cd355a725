-- One row per profiled point with a pipeline and stage: how long the stage waits for others, and how even the stages are.
--
-- Use it to see what pipeline parallelism costs. A stage is in its bubble while it does not compute and
-- another stage does. computing + bubble + neither = 100% of the time in which all ranks were recorded.
-- ideal_pct is (p-1)/(m+p-1) for p stages and m micro-batches that do not wait for each other; those of
-- the same requests do, so that a bubble is larger with few requests in flight. Times are means of the
-- stage's ranks, recorded under the profiler.
-- @column point            VARCHAR  Point.
-- @column engine           VARCHAR  Engine of the point.
-- @column in_flight        BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column prompt_tokens    BIGINT   Tokens of each prompt.
-- @column output_tokens    BIGINT   Tokens that each request generates.
-- @column pp               BIGINT   Stages of the pipeline, p.
-- @column stage            BIGINT   Stage, from 0; the last one has the head of the model and the sampling.
-- @column ranks            BIGINT   Ranks of the stage that were recorded.
-- @column bubble_pct       DOUBLE   Bubble, percent of the window; NULL if a stage was not recorded.
-- @column ideal_pct        DOUBLE   Bubble if micro-batches did not wait for each other, percent of the window.
-- @column computing_pct    DOUBLE   Time in which it computes, percent of the window.
-- @column neither_pct      DOUBLE   Time in which no stage computes, percent of the window; NULL if a stage was not recorded.
-- @column window_ns        DOUBLE   Length of the window, ns.
-- @column computing_ns     DOUBLE   Time in which it computes, ns.
-- @column microbatches     DOUBLE   Micro-batches that a rank began in the window.
-- @column computing_ratio  DOUBLE   Computing time divided by the mean of the stages; NULL if a stage was not recorded.
-- @column imbalance        DOUBLE   Largest computing_ratio of the point's stages: 1 if they are even; NULL if a stage was not recorded.
-- @key    point stage bubble_pct ideal_pct computing_pct neither_pct computing_ratio imbalance
-- @empty  no profiled point has pipeline stages that ran on GPUs; run a plan with pipeline_parallel: [1, 2] and record.profile: true, and see the query profiles
-- @chart  bar x=bubble_pct,ideal_pct y=point,stage
-- @title  Bubble of each pipeline stage, and the bubble of micro-batches that do not wait
WITH stage AS (
    SELECT
        point_id,
        pp_rank AS stage,
        COUNT(*) AS ranks,
        AVG(window_ns) AS window_ns,
        AVG(computing_ns) AS computing_ns,
        AVG(bubble_ns) AS bubble_ns,
        AVG(neither_ns) AS neither_ns,
        AVG(microbatches) AS microbatches,
        AVG(ideal_pct) AS ideal_pct
    FROM profile_bubble
    GROUP BY point_id, pp_rank
),
compared AS (
    SELECT
        stage.*,
        COUNT(*) OVER of_point = point.pp AS is_complete,
        stage.computing_ns / NULLIF(AVG(stage.computing_ns) OVER of_point, 0) AS computing_ratio
    FROM stage
    INNER JOIN point USING (point_id)
    WINDOW of_point AS (PARTITION BY stage.point_id)
)
SELECT
    point_label.title AS point,
    point.engine, point.in_flight, point.prompt_tokens, point.output_tokens, point.pp,
    compared.stage, compared.ranks,
    CASE WHEN compared.is_complete THEN 100 * compared.bubble_ns / NULLIF(compared.window_ns, 0) END AS bubble_pct,
    compared.ideal_pct,
    100 * compared.computing_ns / NULLIF(compared.window_ns, 0) AS computing_pct,
    CASE WHEN compared.is_complete THEN 100 * compared.neither_ns / NULLIF(compared.window_ns, 0) END AS neither_pct,
    compared.window_ns, compared.computing_ns, compared.microbatches,
    CASE WHEN compared.is_complete THEN compared.computing_ratio END AS computing_ratio,
    CASE
        WHEN compared.is_complete THEN MAX(compared.computing_ratio) OVER (PARTITION BY compared.point_id)
    END AS imbalance
FROM compared
INNER JOIN point USING (point_id)
INNER JOIN point_label USING (point_id)
ORDER BY compared.point_id, compared.stage
