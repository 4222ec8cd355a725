-- One row per stratum and kernels at one place of a step: what became of kernels whose role is unknown.
--
-- Without a role, kernels are compared by their order and by their names without sizes, numbers and
-- template arguments.
-- @param  limit         INTEGER = 20  Maximum number of rows.
-- @column stratum       VARCHAR  Kind of step.
-- @column base          VARCHAR  Kernels of base, in their order, each name once; NULL if there are none.
-- @column new           VARCHAR  The same of new.
-- @column base_kernels  BIGINT   Number of kernels of base.
-- @column new_kernels   BIGINT   Number of kernels of new.
-- @column base_ns       BIGINT   Their duration in base, ns.
-- @column new_ns        BIGINT   Their duration in new, ns.
-- @column delta_ns      BIGINT   new_ns - base_ns, ns.
-- @key    stratum base new base_kernels new_kernels base_ns new_ns delta_ns
-- @empty  every kernel of the steps that are compared has a role
-- @chart  none
SELECT
    stratum,
    NULLIF(array_to_string(base, ' + '), '') AS base,
    NULLIF(array_to_string(new, ' + '), '') AS new,
    base_kernels, new_kernels, base_ns, new_ns,
    new_ns - base_ns AS delta_ns
FROM unnamed_kernel
ORDER BY ABS(new_ns - base_ns) DESC, stratum, base, new
LIMIT $limit::INTEGER
