-- One row per rank that lacks operations: records of kernels were lost, or operations have no time.
--
-- Its order of operations no longer shows which ones are the same on another rank.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, operation, unrecorded_launch
-- @empty_unless operation
-- @column rank  BIGINT  Rank.
SELECT rank FROM unrecorded_launch WHERE what = 'kernel' AND reason = 'lost'
UNION
SELECT rank FROM kernel WHERE category = 'collective' AND ts IS NULL
