-- One row per side and scope: the run whose step stands for the side, the one of median step time.
-- @column side   VARCHAR  base or new.
-- @column scope  VARCHAR  A phase, or all.
-- @column run    BIGINT   The run; of two in the middle the one with the shorter step.
SELECT side, scope, run
FROM run_value
WHERE metric = 'step'
QUALIFY
    ROW_NUMBER() OVER (PARTITION BY side, scope ORDER BY ns, run)
    = (COUNT(*) OVER (PARTITION BY side, scope) + 1) // 2
ORDER BY side, scope
