-- One row per rank, part and cause: idle time and waiting in a step, by root rank and cause.
--
-- Use it to see whose host, launch or kernel makes the step longer: waiting is charged to
-- the late rank. Each side has the median of its runs, and the idle time right before the step counts.
-- @param  scope      VARCHAR = NULL  Phase of the steps, or all; the phase that takes most of base's time by default.
-- @param  limit      INTEGER = 0     Maximum number of rows.
-- @column scope      VARCHAR  Phase of the steps, or all.
-- @column rank       BIGINT   Rank that lost the time.
-- @column part       VARCHAR  idle or exposed_wait.
-- @column root_rank  BIGINT   Rank that the cause is on: the rank itself if it was idle, the late rank if it waited.
-- @column cause      VARCHAR  sync, host, dependency, launch, not recorded, unknown or, of waiting, what made the late rank late.
-- @column base_ns    DOUBLE   Time in a step of base, ns.
-- @column new_ns     DOUBLE   Time in a step of new, ns.
-- @column delta_ns   DOUBLE   new_ns - base_ns, ns.
-- @key    rank part root_rank cause base_ns new_ns delta_ns
-- @empty  no rank was idle or waited in the steps that are compared
-- @chart  dumbbell x=base_ns,new_ns y=part,rank,cause,root_rank
-- @title  Idle time and waiting, base against new
SELECT scope, rank, part, root_rank, cause, base_ns, new_ns, delta_ns
FROM lost
WHERE
    scope = COALESCE($scope::VARCHAR, (SELECT scope.scope FROM scope WHERE scope.position = 0))
    AND (base_ns > 0 OR new_ns > 0)
ORDER BY ABS(delta_ns) DESC, rank, part, root_rank, cause
LIMIT $limit::INTEGER
