-- One row per fact about the machine and the software, and value of it: how many repeats have it.
--
-- Use it before you trust a difference: repeats that differ in a fact may differ for that reason. Complete
-- repeats count, without those under the profiler.
-- @column fact        VARCHAR  model, weights, benchmark, vllm, torch, gpu, driver, host or commit.
-- @column value       VARCHAR  Its value; NULL if it is unknown.
-- @column repeats     BIGINT   Complete repeats with that value.
-- @column differs     BOOLEAN  Whether repeats of the experiment have several values of the fact.
-- @column experiment  VARCHAR  Experiment.
-- @key    fact value repeats differs experiment
-- @empty  no repeat is complete; see the query failures
-- @chart  none
WITH done AS (
    SELECT repeat.*, experiment.experiment_id, experiment.name AS experiment, experiment.dummy_weights, experiment.bench, point.model
    FROM repeat
    INNER JOIN point USING (point_id)
    INNER JOIN experiment USING (experiment_id)
    WHERE repeat.status = 'complete' AND repeat.number > 0
),
fact AS (
    SELECT
        experiment_id, experiment,
        UNNEST([
            {'place': 1, 'fact': 'model', 'value': model},
            {'place': 2, 'fact': 'weights', 'value': CASE WHEN dummy_weights THEN 'random' ELSE 'loaded' END},
            {'place': 3, 'fact': 'benchmark', 'value': bench},
            {'place': 4, 'fact': 'vllm', 'value': vllm},
            {'place': 5, 'fact': 'torch', 'value': torch},
            {'place': 6, 'fact': 'gpu', 'value': gpu_name},
            {'place': 7, 'fact': 'driver', 'value': driver},
            {'place': 8, 'fact': 'host', 'value': host},
            {'place': 9, 'fact': 'commit', 'value': commit_id}
        ], recursive := TRUE)
    FROM done
)
SELECT
    fact, value,
    COUNT(*) AS repeats,
    COUNT(*) OVER (PARTITION BY experiment_id, fact) > 1 AS differs,
    experiment
FROM fact
GROUP BY experiment_id, experiment, place, fact, value
ORDER BY experiment_id, place, repeats DESC, value
