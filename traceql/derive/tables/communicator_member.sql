-- One row per communicator and rank in it.
-- @scope  run
-- @needs  described_communicator
-- @column communicator_id  BIGINT  Communicator (communicator.communicator_id).
-- @column rank             BIGINT  Rank; a rank that was not loaded is listed only if events name it.
-- @column place            BIGINT  Position of the rank in the communicator, from 0; if data goes one way, it goes from 0 to 1.
WITH described AS (
    SELECT DISTINCT communicator_id, ranks FROM described_communicator
)
SELECT
    communicator_id,
    UNNEST(ranks) AS rank,
    CAST(generate_subscripts(ranks, 1) - 1 AS BIGINT) AS place
FROM described
ORDER BY communicator_id, place
