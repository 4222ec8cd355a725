-- One row per point: what tables and charts call it.
--
-- @column point_id      BIGINT   Point.
-- @column experiment    VARCHAR  Name of its experiment.
-- @column title         VARCHAR  Point: "TP 2, batch 16, 1,024 in": the engine, and by what points that were to be run differ in load, prompt and output; of several experiments, its own comes first. NULL if it was left out.
-- @column scope         VARCHAR  Experiment and model for titles, with a colon and a space; empty if there is only one of both.
-- @column tokens_label  VARCHAR  Tokens of a request: "1,024 in, 128 out".
-- @column load_label    VARCHAR  Load: "16" requests in flight, "2.5/s", or both.
-- @column limit_label   VARCHAR  Limit of requests in flight where they arrive at a rate: ", at most 64 in flight"; empty without one.
-- @column load_value    DOUBLE   By what loads of one kind are ordered: arriving requests per second where there is a rate, else requests in flight.
-- @column load_group    VARCHAR  The same for points of one engine, model and experiment, and one number of tokens, whose loads are of one kind; of rates, also with one limit of requests in flight.
WITH several AS (
    SELECT
        (SELECT COUNT(DISTINCT name) FROM experiment) > 1 AS experiments,
        (SELECT COUNT(DISTINCT model) FROM point) > 1 AS models
),
named AS (
    SELECT
        point.*,
        experiment.name AS experiment,
        concat_ws(
            ', ',
            CASE WHEN several.experiments THEN experiment.name END,
            CASE WHEN several.models THEN point.model END
        ) AS scope
    FROM point
    INNER JOIN experiment USING (experiment_id)
    CROSS JOIN several
),
titled AS (
    SELECT
        point.point_id,
        concat_ws(
            ', ',
            CASE WHEN COUNT(DISTINCT point.experiment_id) OVER () > 1 THEN experiment.name END,
            point.engine,
            CASE
                WHEN point.in_flight IS NULL OR COUNT(DISTINCT concat_ws(' ', point.load, point.in_flight)) OVER () = 1 THEN NULL
                WHEN point.batch IS NULL THEN format('{:,} in flight', point.in_flight)
                ELSE format('batch {:,}', point.in_flight)
            END,
            CASE
                WHEN COUNT(DISTINCT point.request_rate) OVER () > 1 THEN format('{:g} requests/s', point.request_rate)
            END,
            CASE WHEN COUNT(DISTINCT point.prompt_tokens) OVER () > 1 THEN format('{:,} in', point.prompt_tokens) END,
            CASE WHEN COUNT(DISTINCT point.output_tokens) OVER () > 1 THEN format('{:,} out', point.output_tokens) END
        ) AS title
    FROM point
    INNER JOIN experiment USING (experiment_id)
    WHERE point.skipped_reason IS NULL
)
SELECT
    named.point_id,
    named.experiment,
    titled.title,
    CASE WHEN named.scope = '' THEN '' ELSE named.scope || ': ' END AS scope,
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
