-- One row per communicator and rank that takes part.
-- @scope  run
-- @needs  described_communicator
-- @column communicator_id  BIGINT  Row of communicator.
-- @column rank             BIGINT  Rank; of those that were loaded or that the events name.
-- @column place            BIGINT  Its place among the ranks, from 0; data that goes one way goes from 0 to 1.
WITH described AS (
    SELECT DISTINCT communicator_id, ranks FROM described_communicator
)
SELECT
    communicator_id,
    UNNEST(ranks) AS rank,
    CAST(generate_subscripts(ranks, 1) - 1 AS BIGINT) AS place
FROM described
ORDER BY communicator_id, place
