-- One row per engine: what was planned, and what became of it.
--
-- Use it to see whether an answer rests on all that was planned. planned is the plan's: points times
-- repeats. complete, failed and missing are counted in the folder of results, and add up to it.
-- @column engine             VARCHAR  Engine.
-- @column points             BIGINT   Points that were to be run.
-- @column planned            BIGINT   Repeats of them in the plan.
-- @column complete           BIGINT   Repeats that are complete.
-- @column failed             BIGINT   Repeats that failed.
-- @column missing            BIGINT   Repeats that were not run yet, or were killed.
-- @column adds_up            BOOLEAN  Whether the three add up to planned.
-- @column least_repeats      BIGINT   Complete repeats of the point that has the fewest.
-- @column left_out           BIGINT   Points that were left out of the plan.
-- @column profiles           BIGINT   Repeats under the profiler in the plan.
-- @column profiles_complete  BIGINT   Those that are complete.
-- @column experiment         VARCHAR  Experiment.
-- @key    engine points planned complete failed missing adds_up least_repeats left_out profiles profiles_complete
-- @empty  the plan has no points
-- @chart  none
WITH counted AS (
    SELECT
        point_id,
        COUNT(*) FILTER (number > 0 AND status = 'complete') AS complete,
        COUNT(*) FILTER (number > 0 AND status = 'failed') AS failed,
        COUNT(*) FILTER (number > 0 AND status = 'missing') AS missing,
        COUNT(*) FILTER (number = 0) AS profiles,
        COUNT(*) FILTER (number = 0 AND status = 'complete') AS profiles_complete
    FROM repeat
    GROUP BY point_id
),
engine AS (
    SELECT
        point.experiment_id, point.engine_key,
        ANY_VALUE(point.engine) AS engine,
        ANY_VALUE(point.gpus) AS gpus,
        ANY_VALUE(experiment.name) AS experiment,
        COUNT(*) FILTER (point.skipped_reason IS NULL) AS points,
        COUNT(*) FILTER (point.skipped_reason IS NULL) * ANY_VALUE(experiment.repeats) AS planned,
        COUNT(*) FILTER (point.skipped_reason IS NOT NULL) AS left_out,
        COALESCE(SUM(counted.complete), 0) AS complete,
        COALESCE(SUM(counted.failed), 0) AS failed,
        COALESCE(SUM(counted.missing), 0) AS missing,
        MIN(counted.complete) AS least_repeats,
        COALESCE(SUM(counted.profiles), 0) AS profiles,
        COALESCE(SUM(counted.profiles_complete), 0) AS profiles_complete
    FROM point
    INNER JOIN experiment USING (experiment_id)
    LEFT JOIN counted USING (point_id)
    GROUP BY point.experiment_id, point.engine_key
)
SELECT
    engine, points, planned,
    CAST(complete AS BIGINT) AS complete,
    CAST(failed AS BIGINT) AS failed,
    CAST(missing AS BIGINT) AS missing,
    complete + failed + missing = planned AS adds_up,
    least_repeats, left_out,
    CAST(profiles AS BIGINT) AS profiles,
    CAST(profiles_complete AS BIGINT) AS profiles_complete,
    experiment
FROM engine
ORDER BY experiment_id, gpus, engine
