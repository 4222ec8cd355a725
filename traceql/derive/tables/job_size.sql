-- One row if traces are loaded: how many ranks the run has, and how many of them are loaded.
--
-- Where neither run.json nor a trace states the number of ranks, it is that of the ranks that are
-- loaded or in a communicator: the run may have more.
-- @scope  run
-- @needs  communicator, recorder, run, trace
-- @column loaded    BIGINT   Number of ranks that are loaded.
-- @column ranks     BIGINT   Number of ranks of the run, as far as it is known.
-- @column at_least  BOOLEAN  True where the run may have more ranks: no source states their number.
WITH counted AS (
    SELECT
        COUNT(*) AS loaded,
        CASE WHEN EXISTS (FROM run) THEN MAX(trace.world_size) ELSE MAX(recorder.world_size) END AS stated,
        GREATEST(COUNT(*), MAX(trace.world_size), (SELECT MAX(group_size) FROM communicator)) AS ranks
    FROM trace
    LEFT JOIN recorder USING (rank)
    HAVING COUNT(*) > 0
)
SELECT loaded, ranks, ranks > GREATEST(loaded, stated) AS at_least
FROM counted
