-- One row per point: what tables and charts call it.
-- @column point_id      BIGINT   Point.
-- @column experiment    VARCHAR  Name of its experiment.
-- @column title         VARCHAR  Point: "TP 2, batch 16, 1,024 in": the engine, and by what points that were to be run differ in load, prompt and output; its experiment comes first if another one has the same engine. NULL if it was left out.
-- @column own           VARCHAR  Experiment, with a colon and a space, if another one has the same engine; else empty.
-- @column scope         VARCHAR  That and the model, if there are several, with a colon and a space; else empty.
-- @column tokens_label  VARCHAR  Tokens of a request: "1,024 in, 128 out".
-- @column load_label    VARCHAR  Load: "16" requests in flight, "2.5/s", or both.
-- @column limit_label   VARCHAR  Limit of requests in flight where they arrive at a rate: ", at most 64 in flight"; empty without one.
-- @column load_value    DOUBLE   By what loads of one kind are ordered: arriving requests per second where there is a rate, else requests in flight.
-- @column load_group    VARCHAR  The same for points of one engine, model and experiment, and one number of tokens, whose loads are of one kind; of rates, also with one limit of requests in flight.
WITH shared AS (  -- engines whose names several experiments share
    SELECT engine FROM point GROUP BY engine HAVING COUNT(DISTINCT experiment_id) > 1
),
named AS (
    SELECT
        point.*,
        experiment.name AS experiment,
        CASE WHEN shared.engine IS NOT NULL THEN experiment.name END AS own,
        CASE WHEN (SELECT COUNT(DISTINCT model) FROM point) > 1 THEN point.model END AS model_of_several
    FROM point
    INNER JOIN experiment USING (experiment_id)
    LEFT JOIN shared ON point.engine = shared.engine
),
titled AS (
    SELECT
        point_id,
        concat_ws(
            ', ',
            own,
            engine,
            CASE
                WHEN in_flight IS NULL OR COUNT(DISTINCT concat_ws(' ', load, in_flight)) OVER () = 1 THEN NULL
                WHEN batch IS NULL THEN format('{:,} in flight', in_flight)
                ELSE format('batch {:,}', in_flight)
            END,
            CASE
                WHEN COUNT(DISTINCT request_rate) OVER () > 1 THEN format('{:g} requests/s', request_rate)
            END,
            CASE WHEN COUNT(DISTINCT prompt_tokens) OVER () > 1 THEN format('{:,} in', prompt_tokens) END,
            CASE WHEN COUNT(DISTINCT output_tokens) OVER () > 1 THEN format('{:,} out', output_tokens) END
        ) AS title
    FROM named
    WHERE skipped_reason IS NULL
)
SELECT
    named.point_id, named.experiment, titled.title,
    COALESCE(named.own || ': ', '') AS own,
    CASE
        WHEN named.own IS NULL AND named.model_of_several IS NULL THEN ''
        ELSE concat_ws(', ', named.own, named.model_of_several) || ': '
    END AS scope,
    format('{:,} in, {:,} out', named.prompt_tokens, named.output_tokens) AS tokens_label,
    concat_ws(
        ', ',
        CASE WHEN named.request_rate IS NOT NULL THEN format('{:g}/s', named.request_rate) END,
        format('{:,}', named.in_flight)
    ) AS load_label,
    CASE
        WHEN named.request_rate IS NOT NULL AND named.in_flight IS NOT NULL THEN format(', at most {:,} in flight', named.in_flight) ELSE ''
    END AS limit_label,
    COALESCE(named.request_rate, CAST(named.in_flight AS DOUBLE)) AS load_value,
    concat_ws(
        '/',
        named.experiment_id,
        named.engine_key,
        named.prompt_tokens,
        named.output_tokens,
        named.load,
        CASE WHEN named.request_rate IS NOT NULL THEN named.in_flight END
    ) AS load_group
FROM named
LEFT JOIN titled USING (point_id)
ORDER BY named.point_id
