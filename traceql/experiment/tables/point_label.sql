-- One row per point: what tables and charts call it.
--
-- @column point_id      BIGINT   Point.
-- @column experiment    VARCHAR  Name of its experiment.
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
        ) AS title
    FROM point
    INNER JOIN experiment USING (experiment_id)
    CROSS JOIN several
)
SELECT
    point_id,
    experiment,
    CASE WHEN title = '' THEN '' ELSE title || ': ' END AS scope,
    format('{:,} in, {:,} out', prompt_tokens, output_tokens) AS tokens_label,
    concat_ws(
        ', ',
        CASE WHEN request_rate IS NOT NULL THEN format('{:g}/s', request_rate) END,
        format('{:,}', in_flight)
    ) AS load_label,
    CASE
        WHEN request_rate IS NOT NULL AND in_flight IS NOT NULL THEN format(', at most {:,} in flight', in_flight) ELSE ''
    END AS limit_label,
    COALESCE(request_rate, CAST(in_flight AS DOUBLE)) AS load_value,
    concat_ws(
        '/',
        experiment_id,
        engine_key,
        prompt_tokens,
        output_tokens,
        load,
        CASE WHEN request_rate IS NOT NULL THEN in_flight END
    ) AS load_group
FROM named
ORDER BY point_id
