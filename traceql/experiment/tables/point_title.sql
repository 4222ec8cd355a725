-- One row per point: its name for people, for tables and charts.
--
-- It has the engine, and of the load, the prompt and the output what differs between the points that
-- were to be run.
-- @column point_id  BIGINT   Point.
-- @column title     VARCHAR  Name, such as "TP 2, batch 16, 1,024 in"; of several experiments, that of its own comes first.
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
ORDER BY point.point_id
