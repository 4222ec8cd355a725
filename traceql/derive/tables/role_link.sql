-- One row per rank and role that communicates: the slowest link of the communicators that the role uses.
-- @scope  run
-- @needs  collective, group_link, kernel
-- @empty_unless collective
-- @column rank       BIGINT   Rank.
-- @column role       VARCHAR  Part of the model.
-- @column peak_gbps  DOUBLE   Peak of the link in one direction, GB/s; NULL if no link of the role has a known one.
SELECT kernel.rank, kernel.role, MIN(group_link.peak_gbps) AS peak_gbps
FROM collective
INNER JOIN kernel ON collective.kernel_id = kernel.id
INNER JOIN group_link USING (communicator_id)
GROUP BY kernel.rank, kernel.role
ORDER BY kernel.rank, kernel.role
