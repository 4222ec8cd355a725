-- One row per communicator: a group of ranks that communicate with each other.
-- @schema main
-- @scope  run
-- @needs  communicator_description, layout
-- @empty_unless communicator_description
-- @column communicator_id  BIGINT   Number of the communicator, from 0.
-- @column group_ranks      VARCHAR  Its ranks (the loaded ones, and others that events name), as text; "0 to 1" if data goes one way.
-- @column group_size       BIGINT   Number of its ranks, loaded or not; NULL if unknown.
-- @column is_directed      BOOLEAN  Whether data goes one way only, from the first rank to the second.
-- @column scope            VARCHAR  Which ranks it connects: tensor (ranks of one pipeline stage of one replica), data (of several replicas), pipeline (of several stages) or unknown.
WITH described AS (
    SELECT DISTINCT communicator_id, ranks, group_size, is_directed FROM communicator_description
),
member AS (SELECT communicator_id, UNNEST(ranks) AS rank FROM described),
spread AS (
    SELECT
        member.communicator_id,
        COUNT(DISTINCT layout.pp_rank) AS stages,
        COUNT(DISTINCT layout.dp_rank) AS replicas,
        MAX(layout.pp_size) AS pp_size,
        COUNT(DISTINCT layout.tp_rank) AS tensor_ranks,
        MAX(layout.tp_size) AS tp_size,
        MAX(layout.dp_size) AS dp_size
    FROM member
    LEFT JOIN layout USING (rank)
    GROUP BY member.communicator_id
)
SELECT
    described.communicator_id,
    CASE
        WHEN described.is_directed THEN array_to_string(described.ranks, ' to ')
        ELSE array_to_string(described.ranks, ' ')
    END AS group_ranks,
    described.group_size, described.is_directed,
    CASE
        WHEN spread.stages > 1 THEN 'pipeline'
        WHEN spread.replicas > 1 THEN 'data'
        -- If only one of its ranks was loaded, the sizes of the layout decide.
        WHEN spread.pp_size = 1 AND spread.tp_size = 1 AND spread.dp_size > 1 THEN 'data'
        WHEN spread.tp_size IS NULL AND spread.tensor_ranks < 2 THEN 'unknown'
        ELSE 'tensor'
    END AS scope
FROM described
LEFT JOIN spread USING (communicator_id)
ORDER BY described.communicator_id
