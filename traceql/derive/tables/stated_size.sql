-- One row: the sizes of parallelism that run.json states.
--
-- A size is NULL if no run.json states it, or if those of several run directories differ.
-- @kind   scratch
-- @scope  run
-- @needs  run
-- @column tp          BIGINT  Number of tensor-parallel ranks.
-- @column pp          BIGINT  Number of pipeline stages.
-- @column dp          BIGINT  Number of data-parallel replicas.
-- @column world_size  BIGINT  Number of ranks.
WITH possible AS (
    SELECT
        CASE WHEN tp BETWEEN 1 AND 2147483647 THEN tp END AS tp,
        CASE WHEN pp BETWEEN 1 AND 2147483647 THEN pp END AS pp,
        CASE WHEN dp BETWEEN 1 AND 2147483647 THEN dp END AS dp,
        CASE WHEN world_size BETWEEN 1 AND 2147483647 THEN world_size END AS world_size
    FROM run
)
SELECT
    CASE WHEN MIN(tp) = MAX(tp) THEN MIN(tp) END AS tp,
    CASE WHEN MIN(pp) = MAX(pp) THEN MIN(pp) END AS pp,
    CASE WHEN MIN(dp) = MAX(dp) THEN MIN(dp) END AS dp,
    CASE WHEN MIN(world_size) = MAX(world_size) THEN MIN(world_size) END AS world_size
FROM possible
