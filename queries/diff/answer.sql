-- One row per number that users and engines see: how much it changed, and whether the change is real.
--
-- The answer comes first: the step of the phase that takes most of base's time. base and new are the
-- medians of the runs of each side. change_pct is the Hodges-Lehmann shift between the runs, and
-- low_pct to high_pct its exact 95% interval, which needs four runs on each side; without one there is
-- no verdict. Step times are of equal steps, weighted as base has them (strata).
-- @param  scope            VARCHAR = NULL  Only this phase, or all for all steps together; all of them, and the latencies, by default.
-- @column scope            VARCHAR  Phase of the steps, or all; NULL for the numbers of requests.
-- @column metric           VARCHAR  step (the GPU span), busy (the GPU span without waiting and idle time), interval (with the idle time right before it), tokens_per_second or a latency, as in serving.latency.
-- @column base             DOUBLE   Median of the runs of base, in the unit of the row.
-- @column new              DOUBLE   The same of new.
-- @column unit             VARCHAR  ns or tokens/s.
-- @column change_pct       DOUBLE   Change from base to new, percent; positive if new is greater.
-- @column low_pct          DOUBLE   Lower end of its 95% interval, percent; NULL with fewer than four runs on a side.
-- @column high_pct         DOUBLE   Upper end of it, percent.
-- @column verdict          VARCHAR  faster, slower, no change, inconclusive, no verdict (too few runs) or not comparable.
-- @column reason           VARCHAR  Why it is not more; empty for faster, slower and no change.
-- @column runs_needed      BIGINT   Runs on each side that would do for a verdict; NULL if there are enough, or if that is unknown.
-- @column p                DOUBLE   Of the exact Mann-Whitney test, two-sided; NULL with fewer than four runs on a side.
-- @column base_spread_pct  DOUBLE   From the lowest to the highest run of base, percent; NULL for one run.
-- @column new_spread_pct   DOUBLE   The same of new, percent.
-- @column step_noise_pct   DOUBLE   Median distance of a step of base from the median of its stratum, percent; NULL unless it is a step's time.
-- @key    scope metric base new unit change_pct low_pct high_pct verdict
-- @empty  no step of one side is like a step of the other, and no run recorded latencies; the query strata lists the steps of both
-- @chart  forest x=change_pct,low_pct,high_pct y=scope,metric color=verdict
-- @title  Change of each number
SELECT
    change.scope, change.metric, change.base, change.new, change.unit, change.change_pct,
    change.low_pct, change.high_pct, change.verdict, change.reason, change.runs_needed, change.p,
    change.base_spread_pct, change.new_spread_pct, change.step_noise_pct
FROM change
LEFT JOIN scope USING (scope)
WHERE
    (change.kind IN ('whole', 'rate', 'latency') OR change.metric = 'busy')
    AND ($scope::VARCHAR IS NULL OR change.scope = $scope::VARCHAR)
    -- Of one phase, all steps together are the same as that.
    AND ($scope::VARCHAR IS NOT NULL OR change.scope IS DISTINCT FROM 'all' OR (SELECT COUNT(*) FROM scope) > 2)
ORDER BY
    list_position(['step', 'busy', 'interval', 'tokens_per_second'], change.metric) NULLS LAST,
    scope.position,
    change.metric
