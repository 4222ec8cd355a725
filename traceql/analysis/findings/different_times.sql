-- Ranks were recorded at other times than the lowest rank.
-- @title      different times
-- @notable    1
-- @severe     1
-- @unit       ranks
-- @evidence   quality.ledger rank=rank
-- @advice     Load each recording into a database of its own (-o): waiting, skew and what runs at the same time hold only within one.
-- @source     own: ranks of one run are recorded at the same time
-- @needs      disjoint_recording
SELECT
    COUNT(*) AS value,
    NULL::BIGINT AS cost_ns,
    format(
        'Rank{} {} {} recorded at another time than rank {}: {:,.1f} s lie between them. They are not ranks of one run.',
        CASE COUNT(*) WHEN 1 THEN '' ELSE 's' END,
        string_agg(CAST(rank AS VARCHAR), ', ' ORDER BY rank),
        CASE COUNT(*) WHEN 1 THEN 'was' ELSE 'were' END,
        ANY_VALUE(reference_rank),
        MIN(apart_ns) / 1e9
    ) AS finding,
    MIN(rank) AS rank
FROM disjoint_recording
HAVING COUNT(*) > 0
