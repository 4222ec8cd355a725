-- One row per stratum of any run: how much of it each side has, and whether it is compared.
--
-- A stratum is compared if every run of both sides has it.
-- @column stratum        VARCHAR  Steps of one phase, number of rows and, where known, length of the KV cache.
-- @column phase          VARCHAR  Phase of its steps.
-- @column base_runs      BIGINT   Runs of base that have it.
-- @column new_runs       BIGINT   Runs of new that have it.
-- @column is_compared    BOOLEAN  Whether all runs of both sides have it.
-- @column base_steps     BIGINT   Steps in a run of base: the median, of two in the middle the lower one.
-- @column new_steps      BIGINT   The same of new.
-- @column base_tokens    DOUBLE   Mean number of tokens of a step of base; NULL if unknown.
-- @column new_tokens     DOUBLE   The same of new.
-- @column base_graphs    VARCHAR  How steps of base use CUDA graphs: full, piecewise or none.
-- @column new_graphs     VARCHAR  The same of new.
-- @column base_total_ns  DOUBLE   Mean time of all steps of a run of base, on one lane, ns.
-- @column new_total_ns   DOUBLE   The same of new.
WITH side_size AS (
    SELECT
        side, stratum,
        ANY_VALUE(phase) AS phase,
        COUNT(*) AS runs,
        quantile_disc(units, 0.5) AS steps,
        SUM(tokens * units ORDER BY run) / SUM(units) AS tokens,
        STRING_AGG(DISTINCT graph_mode, ', ' ORDER BY graph_mode) AS graphs,
        SUM(gpu_ns / lanes ORDER BY run) AS total_ns
    FROM profile_stratum
    WHERE grain = (SELECT grain FROM grain)
    GROUP BY side, stratum
),
side_runs AS (
    SELECT
        COUNT(DISTINCT run) FILTER (side = 'base') AS base,
        COUNT(DISTINCT run) FILTER (side = 'new') AS new
    FROM profile_fact
)
SELECT
    stratum,
    ANY_VALUE(phase) AS phase,
    COALESCE(ANY_VALUE(runs) FILTER (side = 'base'), 0) AS base_runs,
    COALESCE(ANY_VALUE(runs) FILTER (side = 'new'), 0) AS new_runs,
    base_runs = ANY_VALUE(side_runs.base) AND new_runs = ANY_VALUE(side_runs.new) AS is_compared,
    ANY_VALUE(steps) FILTER (side = 'base') AS base_steps,
    ANY_VALUE(steps) FILTER (side = 'new') AS new_steps,
    ANY_VALUE(tokens) FILTER (side = 'base') AS base_tokens,
    ANY_VALUE(tokens) FILTER (side = 'new') AS new_tokens,
    ANY_VALUE(graphs) FILTER (side = 'base') AS base_graphs,
    ANY_VALUE(graphs) FILTER (side = 'new') AS new_graphs,
    ANY_VALUE(total_ns) FILTER (side = 'base') / ANY_VALUE(side_runs.base) AS base_total_ns,
    ANY_VALUE(total_ns) FILTER (side = 'new') / ANY_VALUE(side_runs.new) AS new_total_ns
FROM side_size
CROSS JOIN side_runs
GROUP BY stratum
ORDER BY GREATEST(COALESCE(base_total_ns, 0), COALESCE(new_total_ns, 0)) DESC, stratum
