-- One row per reason why points were not measured: how many points and repeats it cost, and the end of the log.
--
-- Use it to see what is missing before you read the other answers. A repeat failed, is missing (not run
-- yet, or killed), or its point was left out of the plan before anything ran; a profile that is there but
-- cannot be loaded is unreadable. traceql experiment run --resume runs what is missing, with
-- --retry-failed also what failed.
-- @param  each      BOOLEAN = FALSE  Whether each repeat has a row of its own.
-- @column status    VARCHAR  failed, missing, left out or unreadable.
-- @column reason    VARCHAR  Why; NULL where nothing is known, as of what is missing.
-- @column points    BIGINT   Points.
-- @column repeats   BIGINT   Repeats, with those under the profiler; NULL of points that were left out.
-- @column engines   VARCHAR  Their engines.
-- @column point     VARCHAR  ENGINE/POINT, the folder below points/: the first one, or the one of the row.
-- @column repeat    VARCHAR  Number of the repeat, or profiled: the first one, or the one of the row; NULL of points that were left out.
-- @column log_line  VARCHAR  The first line of the end of the log that names an error, or else the first line; NULL without a log.
-- @column experiment  VARCHAR  Experiment.
-- @key    status reason points repeats engines log_line experiment
-- @empty  every planned repeat is complete
-- @chart  none
WITH lost AS (
    SELECT
        CASE repeat.status WHEN 'failed' THEN 1 ELSE 2 END AS place,
        repeat.status, repeat.reason, repeat.point_id, repeat.number,
        string_split(repeat.log_tail, chr(10)) AS log
    FROM repeat
    WHERE repeat.status != 'complete'
    UNION ALL
    SELECT 3, 'unreadable', profile_note.reason, profile_note.point_id, 0, NULL
    FROM profile_note
    WHERE NOT profile_note.loaded
    UNION ALL
    SELECT 4, 'left out', point.skipped_reason, point.point_id, NULL, NULL
    FROM point
    WHERE point.skipped_reason IS NOT NULL
),
found AS (
    SELECT
        lost.*, point.path, point.engine, experiment.experiment_id,
        experiment.name AS experiment,
        CASE lost.number WHEN 0 THEN 'profiled' ELSE CAST(lost.number AS VARCHAR) END AS repeat,
        COALESCE(
            list_filter(lost.log, lambda line: regexp_matches(line, 'rror|xception|out of memory|OOM|Killed'))[1],
            list_filter(lost.log, lambda line: trim(line) != '')[1]
        ) AS log_line
    FROM lost
    INNER JOIN point USING (point_id)
    INNER JOIN experiment USING (experiment_id)
)
SELECT
    status, reason,
    COUNT(DISTINCT point_id) AS points,
    NULLIF(COUNT(number), 0) AS repeats,
    STRING_AGG(DISTINCT engine, '; ' ORDER BY engine) AS engines,
    FIRST(path ORDER BY point_id, number) AS point,
    FIRST(repeat ORDER BY point_id, number) AS repeat,
    trim(ANY_VALUE(log_line ORDER BY point_id, number)) AS log_line,
    experiment
FROM found
GROUP BY
    experiment_id, experiment, place, status, reason,
    CASE WHEN $each::BOOLEAN THEN concat_ws('/', point_id, number) END
ORDER BY experiment_id, place, points DESC, reason, MIN(point_id), MIN(number)
