-- One row: how many launches have no record of what they launched, because the profiler lost it, and their share.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, unrecorded_launch
-- @column launches  BIGINT  Launches without a record of what they launched.
-- @column pct       DOUBLE  Of all launches, percent; NULL without launches.
SELECT missing.launches, 100.0 * missing.launches / NULLIF(missing.launches + recorded.launches, 0) AS pct
FROM (SELECT COUNT(*) AS launches FROM unrecorded_launch WHERE reason = 'lost') AS missing
CROSS JOIN (SELECT COUNT(DISTINCT launch_id) AS launches FROM kernel) AS recorded
