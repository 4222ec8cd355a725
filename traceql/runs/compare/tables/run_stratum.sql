-- One row per run, scope and compared stratum: how much the stratum counts in the step of the scope.
--
-- A step of the scope is the sum of steps x time of a unit over its strata, divided by lane_steps.
-- @column side        VARCHAR  base or new.
-- @column run         BIGINT   Number of the run in its side, from 0.
-- @column grain       VARCHAR  kv or rows (grain.grain).
-- @column scope       VARCHAR  A phase, or all.
-- @column stratum     VARCHAR  Stratum.
-- @column steps       BIGINT   Steps of the stratum that count (weight.steps).
-- @column typical     BIGINT   Typical units that the run has of it.
-- @column lane_steps  HUGEINT  Steps that count times their lanes, of all strata of the scope.
SELECT
    own.side, own.run, own.grain, weight.scope, weight.stratum, weight.steps, own.typical,
    SUM(weight.steps * own.lanes) OVER (PARTITION BY own.side, own.run, weight.scope) AS lane_steps
FROM weight
INNER JOIN profile_stratum AS own USING (stratum)
WHERE own.grain = (SELECT grain FROM grain)
ORDER BY ALL
