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
WITH sized AS (
    SELECT * FROM profile_stratum WHERE grain = (SELECT grain FROM grain)
),
side_size AS (
    SELECT
        side,
        stratum,
        ANY_VALUE(phase) AS phase,
        COUNT(*) AS runs,
        quantile_disc(units, 0.5) AS steps,
        SUM(tokens * units ORDER BY run) / SUM(units) AS tokens,
        STRING_AGG(DISTINCT graph_mode, ', ' ORDER BY graph_mode) AS graphs,
        SUM(gpu_ns / lanes ORDER BY run) AS total_ns
    FROM sized
    GROUP BY side, stratum
),
side_runs AS (
    SELECT side, COUNT(DISTINCT run) AS runs FROM profile_fact GROUP BY side
),
joined AS (
    SELECT
        COALESCE(base.stratum, new.stratum) AS stratum,
        COALESCE(base.phase, new.phase) AS phase,
        COALESCE(base.runs, 0) AS base_runs,
        COALESCE(new.runs, 0) AS new_runs,
        base.steps AS base_steps,
        new.steps AS new_steps,
        base.tokens AS base_tokens,
        new.tokens AS new_tokens,
        base.graphs AS base_graphs,
        new.graphs AS new_graphs,
        base.total_ns AS base_total_ns,
        new.total_ns AS new_total_ns
    FROM (FROM side_size WHERE side = 'base') AS base
    FULL JOIN (FROM side_size WHERE side = 'new') AS new USING (stratum)
)
SELECT
    joined.stratum,
    joined.phase,
    joined.base_runs,
    joined.new_runs,
    joined.base_runs = base.runs AND joined.new_runs = new.runs AS is_compared,
    joined.base_steps,
    joined.new_steps,
    joined.base_tokens,
    joined.new_tokens,
    joined.base_graphs,
    joined.new_graphs,
    joined.base_total_ns / base.runs AS base_total_ns,
    joined.new_total_ns / new.runs AS new_total_ns
FROM joined
CROSS JOIN (FROM side_runs WHERE side = 'base') AS base
CROSS JOIN (FROM side_runs WHERE side = 'new') AS new
ORDER BY GREATEST(COALESCE(base_total_ns, 0), COALESCE(new_total_ns, 0)) DESC, joined.stratum
